"""The ONNX packages, which are optional, and files in that format."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpn.errors import TPNError


def has_onnxruntime() -> bool:
    """Return whether ONNX models can be run and changed here."""
    try:
        import_module("onnxruntime")
        import_module("onnx")
    except ImportError:
        return False
    return True


def onnxruntime_is_installed() -> bool:
    """Return whether the packages that run and change ONNX models are installed, without loading them."""
    return find_spec("onnxruntime") is not None and find_spec("onnx") is not None


def import_onnx() -> Any:
    """Return the module onnx, or say how to install it."""
    return _imported("onnx")


def import_onnxruntime() -> Any:
    """Return the module onnxruntime, or say how to install it."""
    return _imported("onnxruntime")


def load_onnx(file: Path) -> Any:
    """Load an ONNX model. It is data: nothing in it is executed, and no other file is read."""
    onnx = import_onnx()
    try:
        return onnx.load(str(file), load_external_data=False)
    except OSError as failure:
        raise TPNError(f"Cannot read {file}: {failure.strerror or failure}.") from failure
    except Exception as failure:  # protobuf's own errors, which differ between its versions
        raise TPNError(f"{file} is not an ONNX model, or is damaged.") from failure


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as failure:
        raise TPNError(f"This needs {name}: `pip install 'tpn[onnx]'`.") from failure
