"""EfficientNet-Lite as an ONNX model: onnxruntime, where it is installed, runs it about twice as fast as PyTorch."""

from typing import Any

import numpy as np
from torch import Tensor

from tpn.backbones._normalisation import Normalisation
from tpn.backbones._onnx_files import import_onnx
from tpn.backbones.efficientnet_lite import Convolution, ConvolutionReLU6, EfficientNetLite, InvertedResidual

OPSET, IR = 17, 9
"""Versions that every onnxruntime of the last years can read."""
PART_BYTES = 900_000
"""Larger maps between the steps of a block are computed in parts that the cache of a core holds."""
ALL = slice(None)
CHANNELS = 16
"""The channels that onnxruntime computes together: a part has a multiple of it."""


def as_onnx(network: EfficientNetLite) -> bytes:
    """Return the network as an ONNX model, for the pixels (bytes, channels last) of one image of its own size.

    One image at a time: the maps of several do not fit into the caches of a core. For the same reason the wide maps
    inside a block are computed in parts of their channels, each of which the last step of the block adds to the sum.
    """
    graph = _Graph()
    assert isinstance(network.normalise, Normalisation)
    maps, side = graph.normalise(network.normalise), network.image_size
    stem, first, *blocks, head = network.blocks
    assert isinstance(stem, ConvolutionReLU6)
    assert isinstance(first, InvertedResidual)
    assert not first.adds
    maps, side = graph.narrow([stem, *_steps(first)], maps, side)
    for block in blocks:
        assert isinstance(block, InvertedResidual)
        inner, side = graph.narrow(_steps(block), maps, side)
        maps = graph.add("Add", [maps, inner]) if block.adds else inner
    assert isinstance(head, ConvolutionReLU6)
    maps, side = graph.convolve(maps, head, side, relu6=True)
    pooled = graph.add("GlobalAveragePool", [maps])
    return graph.model(graph.add("Flatten", [pooled]), network.image_size, network.map_shape[0])


def _steps(block: InvertedResidual) -> list[Convolution]:
    return [step for step in block.steps if isinstance(step, Convolution)]


def _parts(width: int, side: int) -> list[slice]:
    """Divide the channels of wide maps into as few parts as fit, or into the smallest that there are."""
    possible = [number for number in range(1, width + 1) if width % (CHANNELS * number) == 0] or [1]
    number = next((one for one in possible if 4 * width * side**2 <= one * PART_BYTES), possible[-1])
    return [slice(start, start + width // number) for start in range(0, width, width // number)]


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
        zero, scale = 255 * normalisation.mean.cpu().numpy(), normalisation.factor.cpu().numpy() / 255
        first = self.add("Transpose", ["images"], perm=[0, 3, 1, 2])
        grey = np.rint(zero).astype(np.uint8)
        if np.ptp(grey) == np.ptp(scale) == 0 and np.allclose(zero, grey, rtol=0, atol=1e-4):  # all in one operation
            return self.add("DequantizeLinear", [first, self.constant(scale.flat[0]), self.constant(grey.flat[0])])
        values = self.add("Cast", [first], to=self.onnx.TensorProto.FLOAT)
        return self.add("Mul", [self.add("Sub", [values, self.constant(zero)]), self.constant(scale)])

    def narrow(self, steps: list[Convolution], maps: str, side: int) -> tuple[str, int]:
        """Add the steps of a block: to wide maps, over these, and to narrow maps; return the output and its side."""
        *wide, last = steps
        total, before = "", side
        for part in _parts(last.convolution.in_channels, -(-side // wide[0].convolution.stride[0])):
            inner, side = maps, before
            for step in wide:
                inner, side = self.convolve(inner, step, side, relu6=True, filters=part)
            added, side = self.convolve(inner, last, side, relu6=False, channels=part, bias=not total)
            total = self.add("Add", [added, total]) if total else added
        return total, side

    def convolve(
        self,
        maps: str,
        step: Convolution,
        side: int,
        relu6: bool,
        filters: slice = ALL,
        channels: slice = ALL,
        bias: bool = True,
    ) -> tuple[str, int]:
        """Add a convolution, or some filters or input channels of it, with the padding that it has for this side.

        Returns its output and the side of that.
        """
        layer = step.convolution
        (size, _), (stride, _) = layer.kernel_size, layer.stride
        out = -(-side // stride)
        missing = size - 1 if stride == 1 else max((out - 1) * stride + size - side, 0)
        assert isinstance(layer.bias, Tensor)
        weight = layer.weight.detach()[filters, channels].contiguous().cpu().numpy()
        inputs = [maps, self.constant(weight)]
        if bias:
            inputs.append(self.constant(layer.bias.detach()[filters].cpu().numpy()))
        before, after = missing // 2, missing - missing // 2
        convolved = self.add(
            "Conv",
            inputs,
            strides=[stride] * 2,
            pads=[before, before, after, after],
            group=1 if layer.groups == 1 else len(weight),
        )
        return self.add("Clip", [convolved, self.zero, self.six]) if relu6 else convolved, out

    def model(self, output: str, image_size: int, width: int) -> bytes:
        helper, float32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        shape = [1, image_size, image_size, 3]
        images = helper.make_tensor_value_info("images", self.onnx.TensorProto.UINT8, shape)
        features = helper.make_tensor_value_info(output, float32, [1, width])
        graph = helper.make_graph(self.nodes, "EfficientNet-Lite", [images], [features], self.tensors)
        raw: bytes = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR
        ).SerializeToString()
        return raw
