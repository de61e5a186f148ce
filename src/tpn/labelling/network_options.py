"""The options that choose a network. Nothing here needs torch or NumPy: `--help` answers at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tpn.errors import TPNError


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The network that embeds images."""

    backbone: str | None = None
    """The network: a name that `tpn backbones` lists, such as tinyvit-5m; a run folder of tpn train, or mini-conv4;
    onnx:FILE; or timm:MODEL, if timm is installed (default: the best of those at hand)."""
    weights: Path | None = None
    """The weights of dinov2-s, dinov2-b or an efficientnet-lite, as a file (.pth, .safetensors, .onnx), instead of
    those that `tpn backbones get` fetches."""
    input_size: int | None = None
    """Height and width of the images that a model onnx:FILE takes (default: as the model says)."""
    layout: Literal["nchw", "nhwc"] | None = None
    """Whether the channels of images come first (nchw) or last (nhwc), for onnx:FILE (default: as the model says)."""
    mean: tuple[float, ...] = ()
    """The mean of each channel, from 0 to 1, that is subtracted for onnx:FILE (default: as the model says, otherwise
    that of ImageNet)."""
    std: tuple[float, ...] = ()
    """The standard deviation of each channel that images are divided by, for onnx:FILE (default: as for --mean)."""
    output: str | None = None
    """The value inside onnx:FILE that is the feature (default: the first output)."""

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values and (len(values) != 3 or any(value != value or abs(value) == float("inf") for value in values)):
                raise TPNError(f"--{name} must be three numbers, one for each channel.")
        if any(value <= 0 for value in self.std):
            raise TPNError(f"--std must be above 0, not {min(self.std)}.")
        if self.input_size is not None and not 1 <= self.input_size <= 4096:
            raise TPNError(f"--input-size must be at least 1 and at most 4096, not {self.input_size}.")
        wanted = [name for name in ("input_size", "layout", "mean", "std", "output") if getattr(self, name)]
        if wanted and not (self.backbone or "").startswith("onnx:"):
            raise TPNError(f"--{wanted[0].replace('_', '-')} is for --backbone onnx:FILE.")
