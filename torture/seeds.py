"""Whole files of every kind that people give to tpn, and how tpn reads each of them."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tpn.errors import TPNError
from tpn.images.decoding import NotAnImage, decode, thumbnail
from tpn.images.opening import find_source
from tpn.labelling.features import load_array
from tpn.labelling.label_lists import read_rows
from tpn.runs.tensors import read_tensors

SIZE = 16
CLASSES = {"train": ("n01532829", "n01558993"), "val": ("n01855672",), "test": ("n01930112",)}
IMAGES: dict[str, dict[str, Any]] = {
    "PNG": {}, "JPEG": {}, "JPEG progressive": {"progressive": True}, "GIF": {}, "BMP": {}, "WEBP": {}, "TIFF": {},
    "TIFF lzw": {"compression": "tiff_lzw"}, "TIFF deflate": {"compression": "tiff_adobe_deflate"},
    "TIFF jpeg": {"compression": "jpeg"}, "JPEG2000": {}, "ICO": {}, "PPM": {}, "TGA": {}, "PCX": {}, "DDS": {},
}  # fmt: skip


@dataclass(frozen=True)
class Seed:
    """A whole file, and how to read what becomes of it: an exception other than TPNError is a failure."""

    name: str
    content: bytes
    read: Callable[[bytes, Path], None]


def make_seeds() -> list[Seed]:
    """Make a file of every kind."""
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 4), dtype=np.uint8)
    seeds = []
    for name, options in IMAGES.items():
        form = name.split()[0]
        image = Image.fromarray(pixels) if form in ("PNG", "WEBP") else Image.fromarray(pixels[..., :3])
        seeds.append(Seed(name, _saved(image, form, **options), _read_image))
    files = {f"{split}/{name}/{i}.png": _saved(Image.fromarray(pixels[: 8 + i, :8, :3]), "PNG")
             for split, names in CLASSES.items() for name in names for i in range(3)}  # fmt: skip
    seeds += [
        Seed(f"{kind} archive", content, _read_source("folder", f"a.{kind}")) for kind, content in _archives(files)
    ]
    seeds += [Seed(name, content, _read_source(kind, file)) for name, kind, file, content in _pickles()]
    seeds.append(Seed("npy", _npy(np.arange(12.0).reshape(3, 4)), _read_npy))
    seeds.append(Seed("safetensors", _safetensors(), _read_safetensors))
    seeds.append(Seed("label list", b"path,label\na.png,cat\nb/c.png,dog\n" * 4, _read_labels))
    lists = json.dumps({split: list(names) for split, names in CLASSES.items()}).encode()
    seeds.append(Seed("splits.json", lists, _read_splits))
    return seeds


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def _archives(files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    archives = []
    for kind in ("tar", "tar.gz", "tar.bz2", "tar.xz"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=f"w:{kind[4:]}") as archive:  # type: ignore[call-overload]
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        archives.append((kind, stream.getvalue()))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return [*archives, ("zip", stream.getvalue())]


def _pickles() -> list[tuple[str, str, str, bytes]]:
    images = np.zeros((4, 4, 4, 3), np.uint8)
    cache = {"image_data": images, "class_dict": {"a": [0, 1], "b": [2, 3]}}
    category = {"data": images, "labels": [0, 0, 1, 1], "catname2label": {"a": 0, "b": 1}}
    labels = {"label_specific": np.array([0, 0, 1, 1]), "label_specific_str": ["a", "b"]}
    program = b"cos\nsystem\n(S'touch /tmp/torture-ran-code'\ntR."
    cached = "mini-imagenet-cache-train.pkl"
    made = [("program", "mini-imagenet", cached, program)]
    for protocol in (0, 2, 4):
        made += [
            (f"cache pickle {protocol}", "mini-imagenet", cached, pickle.dumps(cache, protocol)),
            (f"category pickle {protocol}", "mini-imagenet", "miniImageNet_category_split_train.pickle",
             pickle.dumps(category, protocol)),
            (f"labels pickle {protocol}", "tiered-imagenet", "train_labels.pkl", pickle.dumps(labels, protocol)),
        ]  # fmt: skip
    stream = io.BytesIO()
    np.savez(stream, images=images)
    return [*made, ("npz", "tiered-imagenet", "train_images.npz", stream.getvalue())]


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _safetensors() -> bytes:
    import torch
    from safetensors.torch import save

    return save({"a": torch.ones(3, 4), "b": torch.arange(5)}, {"facts": '{"run": "x"}'})


def _read_image(content: bytes, folder: Path) -> None:
    for read in (decode, thumbnail):
        try:
            read(content, SIZE)
        except NotAnImage as failure:
            raise TPNError(str(failure)) from failure


def _read_source(kind: str, name: str) -> Callable[[bytes, Path], None]:
    """Read the index and all images of a source; its other splits are whole copies of the same file."""
    whole = {"mini-imagenet": ("train", "val", "test"), "tiered-imagenet": ("train", "val", "test")}.get(kind, ())

    def read(content: bytes, folder: Path) -> None:
        source_folder = folder / "source"
        source_folder.mkdir(exist_ok=True)
        for split in whole:
            (source_folder / name.replace("train", split)).write_bytes(content)
            if kind == "tiered-imagenet":
                _beside(source_folder, split, name)
        if not whole:
            (source_folder / name).write_bytes(content)
        source = find_source(f"{kind}:{source_folder if whole else source_folder / name}")
        assert source is not None
        with source:
            index = source.index()
            for split_index in index.splits.values():
                keys = {key for keys in split_index.classes.values() for key in keys}
                for _, image in split_index.reader.read(keys):
                    if isinstance(image, bytes):
                        try:
                            decode(image, SIZE)
                        except NotAnImage:
                            continue

    return read


def _beside(folder: Path, split: str, name: str) -> None:
    """Write the other file of a split of tieredImageNet."""
    if name.endswith(".npz"):
        labels = {"label_specific": np.array([0, 0, 1, 1]), "label_specific_str": [f"{split} a", f"{split} b"]}
        (folder / f"{split}_labels.pkl").write_bytes(pickle.dumps(labels))
    else:
        np.savez(folder / f"{split}_images.npz", images=np.zeros((4, 4, 4, 3), np.uint8))


def _read_npy(content: bytes, folder: Path) -> None:
    (folder / "a.npy").write_bytes(content)
    load_array(folder / "a.npy")


def _read_safetensors(content: bytes, folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(content)
    read_tensors(folder / "a.safetensors")


def _read_labels(content: bytes, folder: Path) -> None:
    (folder / "labels.csv").write_bytes(content)
    read_rows(folder / "labels.csv")


def _read_splits(content: bytes, folder: Path) -> None:
    root = folder / "splits"
    for name in ("n01532829", "n01558993", "n01855672", "n01930112"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "1.png").write_bytes(b"")
    (root / "splits.json").write_bytes(content)
    source = find_source(f"folder:{root}")
    assert source is not None
    with source:
        source.index()
