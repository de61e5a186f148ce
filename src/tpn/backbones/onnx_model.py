"""ONNX models as networks that embed images, run by onnxruntime."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from tpn.backbones._onnx_files import import_onnx, import_onnxruntime, load_onnx
from tpn.backbones.dinov2 import IMAGENET_MEAN, IMAGENET_STD
from tpn.errors import TPNError

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
RANGES = {"NominalRange_0_255": (0.0, 1 / 255), "Normalized_0_1": (0.0, 1.0), "Normalized_1_1": (0.5, 0.5)}
"""Mean and standard deviation for the ranges of pixels that ONNX defines as metadata."""


@dataclass(frozen=True)
class OnnxInput:
    """What the user says of a model's input and output; None is read from the model."""

    image_size: int | None = None
    layout: Literal["nchw", "nhwc"] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    output: str | None = None


AS_THE_MODEL_SAYS = OnnxInput()


class OnnxModel:
    """A model that onnxruntime runs, on one thread per call: from images with values from 0 to 1 to features.

    Its output is a vector for each image, a map (which is averaged), or tokens (of which the first, the class token, is
    taken).
    """

    def __init__(
        self, model: Path | bytes, given: OnnxInput = AS_THE_MODEL_SAYS, title: str = "", cuda: bool = False
    ) -> None:
        self.title = title or str(model)
        runtime = import_onnxruntime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # images are shared among threads, not layers
        options.log_severity_level = 3
        source: Any = str(model) if isinstance(model, Path) else model
        if given.output is not None:
            source = self._with_output(model, given.output)
        wanted = ["CUDAExecutionProvider"] if cuda else []
        providers = [*(one for one in wanted if one in runtime.get_available_providers()), "CPUExecutionProvider"]
        if isinstance(model, Path) and not model.is_file():
            raise TPNError(f"{model} does not exist.")
        try:
            self.session = runtime.InferenceSession(source, options, providers=providers)
        except Exception as failure:  # onnxruntime's errors have no common base class
            raise TPNError(f"{self.title} cannot be run by onnxruntime: {_reason(failure)}") from failure
        self._read_input(given)
        self.output = given.output or self.session.get_outputs()[0].name
        self.width = self._try()

    def __call__(self, images: Float[Tensor, "image 3 size size"]) -> Float[Tensor, "image feature"]:
        values = images.cpu().numpy()
        if self.type is np.uint8:
            prepared = np.rint(values * 255).astype(np.uint8)
        else:
            prepared = ((values - self.mean) / self.std).astype(self.type)
        return torch.from_numpy(self._run_all(self._laid_out(prepared)))

    def embed_pixels(self, pixels: UInt8[np.ndarray, "image size size 3"]) -> Float[np.ndarray, "image feature"]:
        """Embed decoded images: the same as a call with floating-point images, without converting them twice."""
        if self.type is np.uint8 and self.layout == "nhwc":
            return self._run_all(pixels)
        values: np.ndarray = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))  # while they are bytes, which is cheap
        if self.type is not np.uint8:
            values = values.astype(np.float32)
            values *= (1 / 255) / self.std
            values -= self.mean / self.std
            values = values.astype(self.type, copy=False)
        return self._run_all(self._laid_out(values))

    def _laid_out(self, values: np.ndarray) -> np.ndarray:
        """Return images of the shape (images, channels, height, width) in the model's layout."""
        return values.transpose(0, 2, 3, 1) if self.layout == "nhwc" else values

    def _run_all(self, values: np.ndarray) -> np.ndarray:
        """Run the model on prepared images in its layout."""
        step = self.batch or max(len(values), 1)
        rows = [self._run(values[start : start + step]) for start in range(0, len(values), step)]
        return np.concatenate(rows)

    def _run(self, values: np.ndarray) -> np.ndarray:
        number = len(values)
        if self.batch and number < self.batch:  # a model for batches of a fixed size
            values = np.concatenate([values, np.zeros((self.batch - number, *values.shape[1:]), values.dtype)])
        (output,) = self.session.run([self.output], {self.input: np.ascontiguousarray(values)})
        return np.asarray(self._vectors(output)[:number], np.float32)

    def _vectors(self, output: Any) -> np.ndarray:
        if not isinstance(output, np.ndarray) or output.ndim not in (2, 3, 4) or output.dtype.kind != "f":
            shape = getattr(output, "shape", type(output).__name__)
            raise TPNError(
                f"{self.title} must give a vector or a map for each image; its output {self.output} is {shape}. "
                "Name another one with --output."
            )
        if output.ndim == 4:
            output = output.mean((1, 2) if self.layout == "nhwc" else (2, 3))
        return np.asarray(output[:, 0] if output.ndim == 3 else output)

    def _with_output(self, model: Path | bytes, output: str) -> bytes:
        """Return the model with one of its inner values as an output."""
        onnx = import_onnx()
        loaded = load_onnx(model) if isinstance(model, Path) else onnx.load_from_string(model)
        if not any(output in node.output for node in loaded.graph.node):
            raise TPNError(f"{self.title} has no value called {output!r} (--output).")
        if output not in [one.name for one in loaded.graph.output]:
            loaded.graph.output.append(onnx.ValueInfoProto(name=output))
        raw: bytes = loaded.SerializeToString()
        return raw

    def _read_input(self, given: OnnxInput) -> None:
        """Find out size, layout and normalisation of the images that the model takes."""
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in TYPES:
            shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
            raise TPNError(f"{self.title} must have one input, a batch of images; it has {shapes}.")
        self.input, self.type, shape = inputs[0].name, TYPES[inputs[0].type], inputs[0].shape
        self.batch = shape[0] if isinstance(shape[0], int) else None
        self.layout = given.layout or ("nhwc" if shape[3] == 3 and shape[1] != 3 else "nchw")
        channels, *sides = [shape[3], *shape[1:3]] if self.layout == "nhwc" else shape[1:]
        if isinstance(channels, int) and channels != 3:
            raise TPNError(f"{self.title} takes images of {channels} channels, not of 3.")
        fixed = [side for side in sides if isinstance(side, int)]
        if len(set(fixed)) > 1:
            raise TPNError(f"{self.title} takes images of {sides[0]}x{sides[1]} pixels; only squares are supported.")
        size = given.image_size or (fixed[0] if fixed else None)
        if size is None:
            raise TPNError(f"{self.title} takes images of any size: choose one with --input-size, such as 224.")
        if fixed and size != fixed[0]:
            raise TPNError(f"{self.title} takes images of {fixed[0]}x{fixed[0]} pixels: leave out --input-size {size}.")
        self.image_size = size
        mean, std = self._normalisation()
        mean, std = given.mean or mean, given.std or std
        self.mean, self.std = (np.array(values, np.float32).reshape(1, -1, 1, 1) for values in (mean, std))

    def _normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and standard deviation from the model's metadata; otherwise those of ImageNet, as is usual."""
        facts = self.session.get_modelmeta().custom_metadata_map
        if facts.get("Image.NominalPixelRange") in RANGES:
            middle, spread = RANGES[facts["Image.NominalPixelRange"]]
            return (middle,) * 3, (spread,) * 3
        try:
            mean, std = (tuple(float(one) for one in json.loads(facts[name])) for name in ("mean", "std"))
        except (KeyError, ValueError, TypeError):
            return IMAGENET_MEAN, IMAGENET_STD
        return (mean, std) if len(mean) == len(std) == 3 and all(std) else (IMAGENET_MEAN, IMAGENET_STD)

    def _try(self) -> int:
        """Embed one image of zeros: what does not work shall fail before thousands are decoded."""
        try:
            return int(self(torch.zeros(1, 3, self.image_size, self.image_size)).shape[1])
        except TPNError:
            raise
        except Exception as failure:
            raise TPNError(f"{self.title} cannot embed an image: {_reason(failure)}") from failure


def _reason(failure: Exception) -> str:
    return f"{' '.join(str(failure).split())[:300]}."
