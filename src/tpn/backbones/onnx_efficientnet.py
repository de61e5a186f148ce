"""EfficientNet-Lite as an ONNX model: onnxruntime, where it is installed, runs it about twice as fast as PyTorch."""

from typing import Any

import numpy as np
from torch import Tensor

from tpn.backbones._normalisation import Normalisation
from tpn.backbones._onnx_files import import_onnx
from tpn.backbones.efficientnet_lite import Convolution, ConvolutionReLU6, EfficientNetLite, InvertedResidual

OPSET, IR = 17, 9
"""Versions that every onnxruntime of the last years can read."""


def as_onnx(network: EfficientNetLite) -> bytes:
    """Return the network as an ONNX model, for the pixels (bytes, channels last) of images of its own size."""
    graph = _Graph()
    assert isinstance(network.normalise, Normalisation)
    maps, side = graph.normalise(network.normalise), network.image_size
    for block in network.blocks:
        if isinstance(block, InvertedResidual):
            inner = maps
            for index, step in enumerate(block.steps):
                assert isinstance(step, Convolution)
                inner, side = graph.convolve(inner, step, side, relu6=index < len(block.steps) - 1)
            maps = graph.add("Add", [maps, inner]) if block.adds else inner
        else:
            assert isinstance(block, ConvolutionReLU6)
            maps, side = graph.convolve(maps, block, side, relu6=True)
    pooled = graph.add("GlobalAveragePool", [maps])
    return graph.model(graph.add("Flatten", [pooled]), network.image_size, network.map_shape[0])


class _Graph:
    """An ONNX graph that is being built."""

    def __init__(self) -> None:
        self.onnx: Any = import_onnx()
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.zero, self.six = self.constant(np.float32(0)), self.constant(np.float32(6))

    def constant(self, value: Any) -> str:
        name = f"constant {len(self.tensors)}"
        self.tensors.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operation: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{operation} {len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [output], **attributes))
        return output

    def normalise(self, normalisation: Normalisation) -> str:
        """Add what turns pixels into normalised images; return its output."""
        of_pixels = 255 * normalisation.mean, normalisation.factor / 255
        mean, factor = (self.constant(values.cpu().numpy()) for values in of_pixels)
        first = self.add("Transpose", ["images"], perm=[0, 3, 1, 2])
        values = self.add("Cast", [first], to=self.onnx.TensorProto.FLOAT)
        return self.add("Mul", [self.add("Sub", [values, mean]), factor])

    def convolve(self, maps: str, step: Convolution, side: int, relu6: bool) -> tuple[str, int]:
        """Add a convolution with the padding that it has for maps of this side; return its output and that's side."""
        layer = step.convolution
        (size, _), (stride, _) = layer.kernel_size, layer.stride
        out = -(-side // stride)
        missing = size - 1 if stride == 1 else max((out - 1) * stride + size - side, 0)
        assert isinstance(layer.bias, Tensor)
        weights = [self.constant(tensor.detach().cpu().numpy()) for tensor in (layer.weight, layer.bias)]
        before, after = missing // 2, missing - missing // 2
        convolved = self.add(
            "Conv", [maps, *weights], strides=[stride] * 2, pads=[before, before, after, after], group=layer.groups
        )
        return self.add("Clip", [convolved, self.zero, self.six]) if relu6 else convolved, out

    def model(self, output: str, image_size: int, width: int) -> bytes:
        helper, float32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        shape = ["image", image_size, image_size, 3]
        images = helper.make_tensor_value_info("images", self.onnx.TensorProto.UINT8, shape)
        features = helper.make_tensor_value_info(output, float32, ["image", width])
        graph = helper.make_graph(self.nodes, "EfficientNet-Lite", [images], [features], self.tensors)
        raw: bytes = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR
        ).SerializeToString()
        return raw
