"""tpn label: from a folder and a few labels to labels for all, a page, and what to label next."""

import csv
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.images.making import as_files, encode, make_images, write_folder
from tpn.cli import main
from tpn.labelling import embedding_pipeline
from tpn.workflows.keywords import option_fields
from tpn.workflows.label_options import LabelOptions

NAMES = [f"{colour} {index}.png" for colour in ("blue", "red") for index in range(8)]


def colour(name, seed):
    """An image that is nearly all of a colour."""
    base = np.zeros((24, 24, 3))
    base[..., {"red": 0, "green": 1, "blue": 2}[name]] = 190
    return (base + np.random.default_rng(seed).integers(0, 60, base.shape)).astype(np.uint8)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with images, features of them, and two labels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPN_CACHE", str(tmp_path / "cache"))
    files = {name: encode(colour(name.split()[0], index)) for index, name in enumerate(NAMES)}
    write_folder(tmp_path / "photos", files)
    np.save("features.npy", np.array([colour(name.split()[0], 0).mean((0, 1)) for name in NAMES]) + noise())
    write_list("few.csv", {"blue 0.png": "blue", "red 0.png": "red"})
    return tmp_path


def noise():
    return np.random.default_rng(5).normal(0, 4, (len(NAMES), 3))


def write_list(file, labels):
    with open(file, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("path", "label"), *labels.items()])


def rows(file="labels.csv"):
    with open(file, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def label(*options, labels=("few.csv",)):
    return main(["label", "photos", "--labels", *labels, "--features", "features.npy", *map(str, options)])


def everything(folder="."):
    """All there is below a folder, with its content."""
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def in_a_process(*arguments):
    """Run a command by itself: exit code, what it printed, and which heavy packages it loaded."""
    code = (
        "import sys; from tpn.cli import main\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code or 0\n"
        "print(code, *({'torch', 'numpy', 'scipy', 'sklearn'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    out, _, last = run.stdout.rstrip("\n").rpartition("\n")
    return int(last.split()[0]), out + run.stderr, set(last.split()[1:])


def test_help_and_wrong_options_need_no_torch(place):
    code, text, loaded = in_a_process("label", "--help")
    assert (code, loaded) == (0, set())
    assert all(f"--{name.replace('_', '-')}" in text for name in option_fields(LabelOptions))
    for wrong in (["--backbones", "x"], ["--alpha", "2"], ["--suggest", "few"]):
        code, text, loaded = in_a_process("label", "photos", *wrong)
        assert (code, loaded) == (2, set())
        assert wrong[0] in text


def test_a_file_that_exists_is_refused_before_torch_is_loaded(place):
    (place / "labels.csv").write_text("mine")
    code, text, loaded = in_a_process("label", "photos", "--labels", "few.csv")
    assert code == 2
    assert "labels.csv exists" in text
    assert "torch" not in loaded


# what comes out


def test_every_image_has_a_label_and_a_confidence(place, capsys):
    assert label() == 0
    found = rows()
    assert [row["path"] for row in found] == NAMES
    assert list(found[0])[:3] == ["path", "label", "confidence"]
    assert all(row["label"] == row["path"].split()[0] for row in found)
    sure = {row["path"]: float(row["confidence"]) for row in found}
    assert sure["blue 0.png"] == sure["red 0.png"] == 1
    assert all(0.5 <= value <= 1 for value in sure.values())
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["class", "given", "labelled", "confidence"]
    assert "2 labels given, 14 found" in text
    assert (place / "labels.html").read_text().startswith("<!DOCTYPE html>")


def test_json_is_one_object_and_nothing_else(place, capsys):
    (place / "photos" / "notes.txt").write_text("a note must not go to standard output")
    assert label("--json", "--suggest", "2") == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert captured.out.count("\n") == 1
    assert "notes.txt" in captured.err
    assert result["pictures"] == 16
    assert result["classes"] == {"blue": {"given": 1, "labelled": 7}, "red": {"given": 1, "labelled": 7}}
    assert (result["too_doubtful"], result["unreached"]) == (0, 0)
    assert result["files"] == {"out": "labels.csv", "suggestions": "labels-suggestions.csv", "page": "labels.html"}
    assert all((place / file).is_file() for file in result["files"].values())
    given = {row["path"] for row in rows("few.csv")}
    others = [float(row["confidence"]) for row in rows() if row["path"] not in given]
    assert result["mean_confidence"] == pytest.approx(np.mean(others), abs=1e-3)
    assert [row["path"] for row in rows("labels-suggestions.csv")] == result["suggestions"]


def test_doubtful_images_are_left_without_a_label(place, capsys):
    np.save("features.npy", np.load("features.npy") + 25 * noise())
    assert label("--no-page") == 0
    sure = sorted({float(row["confidence"]) for row in rows()})
    least = (sure[4] + sure[5]) / 2
    assert label("--min-confidence", least, "--out", "sure.csv", "--json") == 0
    found = rows("sure.csv")
    assert [row["label"] != "" for row in found] == [float(row["confidence"]) >= least for row in found]
    assert "" in {row["label"] for row in found}
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["too_doubtful"] == sum(
        not row["label"] for row in found
    )
    assert label("--min-confidence", "1", "--out", "given.csv") == 0
    assert {row["path"] for row in rows("given.csv") if row["label"]} == {"blue 0.png", "red 0.png"}


def test_suggestions_are_filled_in_and_handed_back(place):
    assert label("--suggest", "4") == 0
    asked = rows("labels-suggestions.csv")
    assert len(asked) == 4
    assert list(asked[0]) == ["path", "label", "guess"]
    assert all(row["label"] == "" and row["guess"] in ("blue", "red") for row in asked)
    assert not {"blue 0.png", "red 0.png"} & {row["path"] for row in asked}
    both = ("few.csv", "labels-suggestions.csv")
    assert label("--out", "same.csv", labels=both) == 0, "nothing filled in yet"
    assert rows("same.csv") == rows("labels.csv")
    with open("labels-suggestions.csv", "w", newline="") as stream:
        table = csv.DictWriter(stream, asked[0])
        table.writeheader()
        table.writerows({**row, "label": "green" if index else ""} for index, row in enumerate(asked))
    assert label("--out", "next.csv", labels=both) == 0
    found = {row["path"]: row for row in rows("next.csv")}
    for row in asked[1:]:
        assert (found[row["path"]]["label"], found[row["path"]]["confidence"]) == ("green", "1.0000")


def test_what_was_found_can_be_handed_back(place, capsys):
    assert label("--no-page") == 0
    assert label("--out", "again.csv", labels=["labels.csv"]) == 0
    assert rows("again.csv") == rows(), "guesses do not become labels"
    assert "14 rows are guesses" in capsys.readouterr().err
    text = (place / "labels.csv").read_text().replace("blue 5.png,blue", "blue 5.png,green")
    (place / "labels.csv").write_text(text)
    assert label("--out", "third.csv", labels=["labels.csv"]) == 0
    assert [row["path"] for row in rows("third.csv") if row["source"] == "given"] == [
        "blue 0.png", "blue 5.png", "red 0.png",
    ]  # fmt: skip


def test_from_no_label_at_all(place, capsys):
    """A first set that covers the folder, filled in, and so on with a class that was not there before."""
    assert main(["label", "photos", "--features", "features.npy", "--suggest", "2"]) == 0
    assert "16 images, no labels yet" in capsys.readouterr().out
    asked = rows("labels-suggestions.csv")
    assert sorted(row["path"].split()[0] for row in asked) == ["blue", "red"], "one of each"
    assert {row["label"] for row in rows()} == {""}
    assert "A first set" in (place / "labels.html").read_text()
    write_list("first.csv", {row["path"]: row["path"].split()[0] for row in asked})
    assert label("--out", "next.csv", labels=["first.csv"]) == 0
    assert all(row["label"] == row["path"].split()[0] for row in rows("next.csv"))
    assert label("--suggest", "6", "--max-per-class", "2", "--out", "few-of-each.csv") == 0
    assert len(rows("few-of-each-suggestions.csv")) == 4


def test_a_session_keeps_labels_between_calls(place):
    assert label("--session") == 0
    assert main(["label", "photos", "--features", "features.npy", "--session", "--out", "again.csv"]) == 0
    assert rows("again.csv") == rows()
    write_list("more.csv", {"blue 3.png": "green", "red 0.png": "crimson"})
    assert label("--session", "--out", "third.csv", labels=["more.csv"]) == 0
    given = {row["path"]: row["label"] for row in rows("third.csv") if row["source"] == "given"}
    assert given == {"blue 0.png": "blue", "blue 3.png": "green", "red 0.png": "crimson"}
    assert sorted(path.name for path in (place / "photos" / ".tpn").iterdir()) == [".lock", "journal.jsonl"]


@pytest.mark.parametrize("how", ["--copy-to", "--link-to"])
def test_images_are_sorted(place, how):
    assert label(how, "sorted") == 0
    for colour_ in ("red", "blue"):
        assert sorted(os.listdir(place / "sorted" / colour_)) == [name for name in NAMES if name.startswith(colour_)]
    assert (place / "sorted" / "red" / "red 1.png").is_symlink() == (how == "--link-to")


def test_class_folders_instead_of_a_list(place, capsys):
    for index, name in enumerate(NAMES):
        kind = name.split()[0]
        target = {0: f"photos/klasse {kind}/{name}", 1: f"photos/unlabelled/{name}"}.get(index % 8, f"photos/{name}")
        os.renames(f"photos/{name}", target)
    order = sorted(os.path.relpath(path, "photos") for path in everything("photos"))
    features = np.load("features.npy")
    np.save("ordered.npy", features[[NAMES.index(os.path.basename(name)) for name in order]])
    assert main(["label", "photos", "--features", "ordered.npy"]) == 0
    assert [row["path"] for row in rows()] == order
    assert all(row["label"] == f"klasse {os.path.basename(row['path']).split()[0]}" for row in rows())


def test_names_in_any_language_and_with_any_character(place):
    folder = place / "Фото & 写真 <b>"
    os.rename("photos", folder)
    write_list("few.csv", {"blue 0.png": "голубой, синий", "red 0.png": '紅"色"'})
    options = ["--labels", "few.csv", "--features", "features.npy", "--out", "итог.csv", "--copy-to", "отсортировано"]
    assert main(["label", folder.name, *options]) == 0
    assert {row["label"] for row in rows("итог.csv")} == {"голубой, синий", '紅"色"'}
    assert sorted(os.listdir("отсортировано")) == ["голубой, синий", "紅_色_"]
    assert "<h1>Фото &amp; 写真 &lt;b&gt;: 16 images, 2 classes</h1>" in (place / "итог.html").read_text()


def test_names_that_are_no_text(place, capsysbinary):
    os.rename(b"photos/red 7.png", b"photos/red \xe9.png")
    os.rename(b"photos", b"phot\xf6s")
    folder = os.fsdecode(b"phot\xf6s")
    options = ["--labels", "few.csv", "--features", "features.npy", "--suggest", "14", "--json"]
    assert main(["label", folder, *options]) == 0
    assert b"Traceback" not in capsysbinary.readouterr().err
    assert rows()[-1]["path"] == "red \\udce9.png"


def test_a_bell_in_a_name_does_not_ring(place, capsys):
    os.rename("photos/red 7.png", "photos/red \a\n7.png")
    write_list("few.csv", {"blue 0.png": "blue", "red 0.png": "red\a\x1b[31m"})
    features = np.load("features.npy")
    order = sorted(os.listdir("photos"))
    by_name = dict(zip([*NAMES[:-1], "red \a\n7.png"], features, strict=True))
    np.save("features.npy", [by_name[name] for name in order])
    assert label("--suggest", "14") == 0
    out = capsys.readouterr().out
    assert not {"\a", "\x1b"} & set(out)
    assert "red \\x07\\n7.png" in out


# networks


def test_the_network_that_comes_with_it(place, capsys, monkeypatch):
    for name in NAMES[3:8] + NAMES[11:]:
        os.remove(place / "photos" / name)
    (place / "photos" / "broken.png").write_bytes(b"\x89PNG")
    call = ["label", "photos", "--labels", "few.csv", "--threads", "1", "--json"]
    assert main(call) == 0
    captured = capsys.readouterr()
    first = json.loads(captured.out)
    assert first["backbone"] == "efficientnet-lite0"
    assert first["pictures"] == 6
    assert "1 image cannot be read" in captured.err
    assert "broken.png" in captured.err
    assert all(row["label"] == row["path"].split()[0] for row in rows())
    unreadable = lambda decoded: all(isinstance(one, str) for one in decoded.values())  # noqa: E731
    monkeypatch.setattr(embedding_pipeline, "_embed_pixels", lambda one, *_: one if unreadable(one) else 1 / 0)
    assert main([*call, "--force"]) == 0, "features come from the cache"
    again = json.loads(capsys.readouterr().out)
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


@pytest.fixture(scope="module")
def colour_run(tmp_path_factory):
    """A short training on coloured images."""
    folder = tmp_path_factory.mktemp("colour")
    write_folder(folder / "photos", as_files(make_images(4)))
    tiny = ["--way", "2", "--shot", "1", "--query", "2", "--episodes", "1", "--validation-episodes", "1"]
    data = ["--data", f"folder:{folder / 'photos'}", "--cache", str(folder / "cache"), "--image-size", "20"]
    assert main(["train", "tpn", *data, *tiny, "--threads", "1", "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.mark.parametrize("scale", ["local", "learned"])
def test_a_run_of_ones_own(place, colour_run, capsys, scale):
    call = ["label", "photos", "--labels", "few.csv", "--backbone", str(colour_run), "--length-scale", scale, "--json"]
    assert main(call) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["backbone"] == str(colour_run)
    assert result["pictures"] == 16
    assert np.mean([row["label"] == row["path"].split()[0] for row in rows()]) > 0.9


def test_networks_that_do_not_fit(place, runs, refused):
    call = ["label", "photos", "--labels", "few.csv", "--backbone"]
    assert "backbone 'resnet'" in refused(*call, "resnet")
    assert "--backbone is empty" in refused(*call, "")
    assert "1 channel" in refused(*call, runs / "one")
    learned = ["label", "photos", "--labels", "few.csv", "--length-scale", "learned"]
    assert "--length-scale learned" in refused(*learned)
    assert "--length-scale learned" in refused(*learned, "--features", "features.npy", "--backbone", runs / "one")
    assert not (place / "labels.csv").exists()


# what is refused


def test_nothing_is_replaced_without_being_asked(place, refused):
    call = ["label", "photos", "--labels", "few.csv", "--features", "features.npy", "--suggest", "1"]
    for name in ("labels.csv", "labels.html", "labels-suggestions.csv"):
        (place / name).write_text("mine")
        error = refused(*call)
        assert f"{name} exists" in error
        assert "--force" in error
        assert (place / name).read_text() == "mine"
        os.remove(place / name)
    (place / "labels.csv").write_text("mine")
    assert main([*call, "--force"]) == 0
    assert len(rows()) == 16


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--min-confidence", "1.5"], "--min-confidence must be"),
        (["--min-confidence", "nan"], "--min-confidence must be"),
        (["--suggest", "-1"], "--suggest must be"),
        (["--suggest", "few"], "--suggest"),
        (["--neighbours", "0"], "--neighbours must be"),
        (["--rounds", "-2"], "--rounds must be"),
        (["--alpha", "1"], "--alpha must be"),
        (["--alpha", "nan"], "--alpha must be"),
        (["--class-prior", "even"], "even"),
        (["--device", "tpu"], "tpu"),
        (["--threads", "0"], "--threads must be"),
        (["--out", "."], "Is a directory"),
        (["--out", ""], "--out is empty"),
        (["--out", "/"], "Is a directory"),
        (["--out", "no/such/folder.csv"], "There is no folder"),
        (["--page", "photos"], "Is a directory"),
        (["--out", "x.html"], "x.html would be used twice"),
        (["--out", "x.csv", "--page", "x.csv"], "x.csv would be used twice"),
        (["--out", "few.csv", "--force"], "few.csv would be used twice"),
        (["--page", "photos/../few.csv", "--force"], "few.csv would be used twice"),
        (["--out", "features.npy", "--force"], "features.npy would be used twice"),
        (["--out", "photos/red 3.png", "--force"], "photos/red 3.png is one of the images"),
        (["--copy-to", "x", "--link-to", "x"], "x would be used twice"),
        (["--copy-to", "photos"], "not an empty folder"),
        (["--copy-to", "photos/sorted"], "among the images"),
        (["--copy-to", "few.csv/sorted"], "few.csv/sorted"),
        (["--labels", "more.csv"], "--labels once"),
        (["--features", "nothing.npy"], "Cannot read nothing.npy"),
    ],
)
def test_wrong_options(place, refused, options, complaint):
    before = everything()
    call = ["label", "photos", "--labels", "few.csv", "--features", "features.npy", *options]
    assert complaint in refused(*call)
    assert everything() == before, "nothing is left behind"


def test_a_list_named_in_another_way_is_not_written_over(place, refused):
    """labels.csv is what --out is called by itself."""
    os.rename("few.csv", "labels.csv")
    os.symlink("labels.csv", "link.csv")
    for name in ("labels.csv", place / "labels.csv", "photos/../labels.csv", "link.csv"):
        call = ["label", "photos", "--labels", name, "--features", "features.npy", "--force"]
        assert "labels.csv would be used twice" in refused(*call)
    assert len(rows()) == 2


@pytest.mark.parametrize(
    ("folder", "complaint"),
    [
        ("nowhere", "nowhere does not exist"),
        ("few.csv", "few.csv is a file, not a folder"),
        ("empty", "There are no images in empty"),
        ("", "An argument is empty"),
    ],
)
def test_wrong_folders(place, refused, folder, complaint):
    (place / "empty").mkdir()
    (place / "elsewhere").mkdir()
    os.chdir(place / "elsewhere" if folder == "" else place)
    assert complaint in refused("label", folder, "--labels", place / "few.csv")


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({}, "None of the 16 images"),
        ({"red 0.png": "red"}, "All labels are 'red'"),
        ({"red 0.png": "red", "green.png": "green"}, "green.png (few.csv, row 3)"),
        ({"red 0.png": "red", "./red 0.png": "blue"}, "red 0.png has two labels"),
    ],
)
def test_wrong_labels(place, refused, labels, complaint):
    write_list("few.csv", labels)
    assert complaint in refused("label", "photos", "--labels", "few.csv", "--features", "features.npy")
    assert not (place / "labels.csv").exists()


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("nothing.csv", "nothing.csv: No such file"),
        ("photos", "photos: Is a directory"),
        ("features.npy", "features.npy is not a text file"),
    ],
)
def test_files_that_are_no_lists(place, refused, file, complaint):
    assert complaint in refused("label", "photos", "--labels", "few.csv", file)


def test_without_labels_at_all(place, refused):
    assert "no class sub-folders" in refused("label", "photos")
    assert "required" in refused("label")


def features_of(kind):
    good = np.ones((16, 3))
    return {
        "too few rows": (good[:5], "5 rows"),
        "not a number": (np.where(np.arange(16)[:, None] == 3, np.nan, good), "in row 4"),
        "infinite": (np.where(np.arange(16)[:, None] == 0, np.inf, good), "in row 1"),
        "too large": (good * 1e300, "in row 1"),
        "one row": (good[0], "matrix of numbers"),
        "no columns": (good[:, :0], "matrix of numbers"),
        "a stack": (good[None], "matrix of numbers"),
        "complex": (good + 1j, "matrix of numbers"),
        "text": (good.astype(str), "matrix of numbers"),
        "records": (np.zeros((16, 1), [("a", "f4")]), "matrix of numbers"),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "too few rows",
        "not a number",
        "infinite",
        "too large",
        "one row",
        "no columns",
        "a stack",
        "complex",
        "text",
        "records",
    ],
)
def test_features_that_do_not_fit(place, refused, kind):
    features, complaint = features_of(kind)
    np.save("other.npy", features)
    assert complaint in refused("label", "photos", "--labels", "few.csv", "--features", "other.npy")


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("kind", ["a pickle", "objects", "an archive", "half an archive", "half a file", "nothing"])
def test_files_that_are_no_features(place, refused, kind):
    if kind == "a pickle":
        content = pickle.dumps(Bomb())
    elif kind == "objects":
        np.save("other.npy", np.array([[Bomb()]] * 16), allow_pickle=True)
        content = (place / "other.npy").read_bytes()
    elif kind == "an archive":
        np.savez("other.npz", np.ones((16, 3)))
        content = (place / "other.npz").read_bytes()
    elif kind == "half an archive":
        content = b"PK\x03\x04 and no more"
    else:
        content = (place / "features.npy").read_bytes()[:200] if kind == "half a file" else b""
    (place / "other.npy").write_bytes(content)
    error = refused("label", "photos", "--labels", "few.csv", "--features", "other.npy")
    assert "other.npy" in error
    assert not (place / "exploded").exists()


def test_labels_of_images_that_cannot_be_read(place, refused):
    for name in NAMES:
        (place / "photos" / name).write_bytes(b"no image")
    error = refused("label", "photos", "--labels", "few.csv")
    assert "None of the files in" in error
    assert "16 images cannot be read" in error
    assert "blue 0.png" in error


def test_a_damaged_cache_is_made_again(place, capsys):
    (place / "cache").mkdir()
    (place / "cache" / "features.sqlite").write_bytes(b"no database at all" * 100)
    assert main(["label", "photos", "--labels", "few.csv", "--no-page"]) == 0
    captured = capsys.readouterr()
    assert "features.sqlite was damaged and is being rebuilt." in captured.err
    assert "Traceback" not in captured.err
    assert all(row["label"] == row["path"].split()[0] for row in rows())
    assert "tpn backbones get" in captured.err, "what a better network would bring"


def test_one_label_of_each_class_is_nothing_to_remark_on(place, capsys):
    np.save(place / "features.npy", np.random.default_rng(0).normal(size=(16, 4)))
    assert main(["label", "photos", "--labels", "few.csv", "--features", "features.npy", "--no-page"]) == 0
    assert "unique classes" not in capsys.readouterr().err
