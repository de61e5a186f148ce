"""Reading the weights of DINOv2 out of an ONNX file, by their published names."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tpn.backbones._onnx_files import import_onnx, load_onnx
from tpn.errors import TPNError

PREFIX = "model."
MATRICES = ("attn/qkv", "attn/proj", "mlp/fc1", "mlp/fc2")
"""The matrices of a block. Exporting transposes them and replaces their names; the nodes keep theirs."""


def read_vit_weights(file: Path) -> dict[str, Tensor]:
    """Return the weights of an exported DINOv2 vision transformer by their published names."""
    numpy_helper = import_onnx().numpy_helper
    graph = load_onnx(file).graph
    tensors = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    weights = {name.removeprefix(PREFIX): tensors[name] for name in tensors if name.startswith(PREFIX)}
    try:
        for node in graph.node:
            place = node.name.strip("/").removesuffix("/MatMul")  # such as blocks.3/attn/qkv
            if node.op_type == "MatMul" and place.partition("/")[2] in MATRICES:
                weights[f"{place.replace('/', '.')}.weight"] = tensors[node.input[1]].T
        weights["pos_embed"] = _positions(graph, tensors, weights["cls_token"])
    except (KeyError, IndexError, StopIteration) as failure:
        raise TPNError(f"{file} does not hold a DINOv2 vision transformer as it is usually exported.") from failure
    return {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}  # copies, which can be written


def _positions(graph: Any, tensors: dict[str, np.ndarray], class_token: np.ndarray) -> np.ndarray:
    """Return the positions before interpolation; that of the class token comes first.

    The trained position of the class token equals the class token itself, so that exporters keep one of the two.
    """
    resized = next(node for node in graph.node if node.op_type == "Resize")
    source = resized.input[0]
    while source not in tensors:
        source = next(node for node in graph.node if source in node.output).input[0]
    return np.concatenate([class_token, tensors[source].reshape(1, -1, class_token.shape[-1])], 1)
