"""What `import tpn` offers."""

import inspect
import subprocess
import sys

import pytest

import tpn

CALLS = [name for name in tpn.__all__ if inspect.isfunction(getattr(tpn, name))]
FIXED = [
    "open_images",
    "images_from",
    "train",
    "pretrain",
    "evaluate",
    "compare",
    "predict",
    "label_folder",
    "load",
    "register_method",
    "register_backbone",
    "LabelPropagator",
    "TPNError",
]


def test_the_fixed_names_are_there():
    assert set(FIXED) <= set(tpn.__all__)
    assert sorted(tpn.__all__) == sorted(set(tpn.__all__))
    for name in tpn.__all__:
        assert getattr(tpn, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        tpn.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", [name for name in tpn.__all__ if name != "__version__"])
def test_every_name_is_documented(name):
    assert len(inspect.getdoc(getattr(tpn, name)).split()) >= 4


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_typed_and_their_parameters_documented(name):
    call = getattr(tpn, name)
    documentation = inspect.getdoc(call)
    assert "{options}" not in documentation
    for parameter in inspect.signature(call).parameters.values():
        assert parameter.annotation is not parameter.empty, parameter.name
        if name not in ("register_method",):
            assert parameter.name in documentation, parameter.name


def test_importing_loads_no_torch():
    code = "import sys, tpn; tpn.TPNError; dir(tpn); assert not {'torch', 'sklearn', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("call", ["train", "evaluate", "compare", "predict", "label_folder", "plot_run"])
def test_a_misspelt_keyword_is_a_type_error_with_a_hint(call, tmp_path):
    arguments = {"predict": ("mini-conv4", ["x.png"], tmp_path), "compare": (["mini-conv4", tmp_path],)}
    names = {"label_folder": "neighbour", "predict": "thread"}
    wrong = names.get(call, "sed")
    with pytest.raises(TypeError, match=rf"{call}\(\) got an unexpected keyword argument '{wrong}'.*Did you mean"):
        getattr(tpn, call)(*arguments.get(call, ("mini-conv4",) if call != "train" else ("tpn",)), **{wrong: 1})


def test_errors_name_keywords_in_python_and_flags_on_the_command_line():
    with pytest.raises(tpn.TPNError) as caught:
        tpn.train("tpn", halve_every=0)
    assert str(caught.value).startswith("halve_every must be at least 1")
    assert caught.value.command_line_text.startswith("--halve-every must be at least 1")
