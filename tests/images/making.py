"""Small data sets in the forms that people have them in, made without any of the package's readers."""

import csv
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 20
SPLIT_CLASSES = {
    "train": ["n01532829", "n01558993", "n01704323"],
    "val": ["n01855672", "n02091244"],
    "test": ["n01930112", "n01981276"],
}
"""Real classes of miniImageNet, so that its lists apply."""
Images = dict[str, dict[str, list[np.ndarray]]]


def make_images(per_class: int = 3, size: int = SIZE, classes: dict[str, list[str]] | None = None) -> Images:
    """Split -> class -> images, all different."""
    rng = np.random.default_rng(0)
    return {
        split: {name: [smooth(rng, size) for _ in range(per_class)] for name in names}
        for split, names in (classes or SPLIT_CLASSES).items()
    }


def smooth(rng: np.random.Generator, size: int) -> np.ndarray:
    """An image without sharp edges, which JPEG keeps well."""
    corners = rng.integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(corners).resize((size, size), Image.Resampling.BICUBIC))


def encode(pixels: np.ndarray, form: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


def decoded(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def as_files(source: Images, form: str = "PNG", suffix: str = ".png") -> dict[str, bytes]:
    """split/class/number.png -> content."""
    return {
        f"{split}/{name}/{index}{suffix}": encode(pixels, form)
        for split, classes in source.items()
        for name, items in classes.items()
        for index, pixels in enumerate(items)
    }


def ravi_files(source: Images) -> tuple[dict[str, bytes], Images]:
    """images/*.jpg with a csv list per split, and the images as JPEG has kept them."""
    files: dict[str, bytes] = {}
    kept: Images = {}
    for split, classes in source.items():
        rows = io.StringIO()
        writer = csv.writer(rows)
        writer.writerow(["filename", "label"])
        for name, items in classes.items():
            for index, pixels in enumerate(items):
                file = f"{name}{index + 1:08}.jpg"
                files[f"images/{file}"] = encode(pixels, "JPEG")
                kept.setdefault(split, {}).setdefault(name, []).append(decoded(files[f"images/{file}"]))
                writer.writerow([file, name])
        files[f"{split}.csv"] = rows.getvalue().encode()
    return files, kept


def write_folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tar_bytes(files: dict[str, bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def write_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    path.write_bytes(tar_bytes(files, mode))
    return path


def cache_content(classes: dict[str, list[np.ndarray]]) -> tuple[np.ndarray, dict[str, list[int]]]:
    """All pixels in one array, and class -> places, the classes interleaved."""
    items = [
        (name, pixels)
        for group in zip(*classes.values(), strict=True)
        for name, pixels in zip(classes, group, strict=True)
    ]
    places: dict[str, list[int]] = {name: [] for name in classes}
    for place, (name, _) in enumerate(items):
        places[name].append(place)
    return np.stack([pixels for _, pixels in items]), places


# Python 2's pickles, instruction by instruction


def py2_string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def py2_int(value: int) -> bytes:
    return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)


def py2_list(items: list[bytes]) -> bytes:
    return b"](" + b"".join(items) + b"e"


def py2_dict(items: dict[bytes, bytes]) -> bytes:
    return b"}(" + b"".join(py2_string(key) + value for key, value in items.items()) + b"u"


def py2_array(array: np.ndarray) -> bytes:
    """What Python 2.7 with NumPy 1.x writes for an array, with its strings of bytes."""
    shape = b"(" + b"".join(map(py2_int, array.shape)) + b"t"
    code, order = array.dtype.str[1:].encode(), array.dtype.str[:1].encode()
    dtype = (
        b"cnumpy\ndtype\n(" + py2_string(code) + py2_int(0) + py2_int(1) + b"tR"
        b"(" + py2_int(3) + py2_string(order) + b"NNN" + py2_int(-1) + py2_int(-1) + py2_int(0) + b"tb"
    )  # fmt: skip
    start = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + py2_int(0) + b"\x85" + py2_string(b"b") + b"tR"
    )
    return start + b"(" + py2_int(1) + shape + dtype + b"\x89" + py2_string(array.tobytes()) + b"tb"


def py2_pickle(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def pickled(content: object, protocol: int = 4) -> bytes:
    return pickle.dumps(content, protocol)
