"""Small files that would take hours or all memory: the work is bounded by the images there are."""

import io
import time
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image

from tests.images import making
from tests.images.making import SIZE, py2_array, py2_pickle, py2_string
from tpn.errors import TPNError
from tpn.images.decoding import MOST_PIXELS, NotAnImage, decode, thumbnail
from tpn.images.opening import open_images

SPLITS = ("train", "val", "test")


def refused(spec, cache, why):
    with pytest.raises(TPNError, match=why):
        open_images(spec, SIZE, cache=cache)


def test_one_list_for_thousands_of_classes(tmp_path):
    """3,000 references to one list of 30,000 numbers."""
    numbers = b"]q\x01(" + b"K\x00" * 30_000 + b"e"
    classes = b"".join(py2_string(b"%04d" % index) + b"h\x01" for index in range(3000))
    entries = py2_string(b"image_data") + py2_array(np.zeros((5, 2, 2, 3), np.uint8))
    entries += py2_string(b"n") + numbers + py2_string(b"class_dict") + b"}(" + classes + b"u"
    content = py2_pickle(b"}(" + entries + b"u")
    assert len(content) < 2**20
    folder = making.write_folder(tmp_path / "mini", {f"mini-imagenet-cache-{split}.pkl": content for split in SPLITS})
    refused(f"mini-imagenet:{folder}", tmp_path / "cache", "classes have more images than the 5 that it has")


def test_one_image_named_over_and_over(tmp_path):
    """30,000 references to one file of 300 KB, each of which would be decoded."""
    image = b"T" + (300_000).to_bytes(4, "little") + bytes(300_000) + b"q\x01"
    content = py2_pickle(b"](" + image + b"h\x01" * 30_000 + b"e")
    labels = py2_pickle(b"}(" + py2_string(b"label_specific") + py2_array(np.zeros(30_001, np.int64)) + b"u")
    folder = making.write_folder(tmp_path / "tiered", {f"{split}_images_png.pkl": content for split in SPLITS})
    making.write_folder(folder, {f"{split}_labels.pkl": labels for split in SPLITS})
    refused(f"tiered-imagenet:{folder}", tmp_path / "cache", "images are larger than the file")


def test_a_class_for_each_of_many_images_takes_no_time(tmp_path):
    """One comparison of all labels for each different label would be 40,000 times 40,000."""
    from tpn.images.array_readers import places_of_labels

    labels = np.random.default_rng(0).integers(-20_000, 20_000, 40_000)
    started = time.perf_counter()
    found = places_of_labels(labels)
    assert time.perf_counter() - started < 1
    assert all((labels[places] == label).all() for label, places in found.items())
    assert sorted(place for places in found.values() for place in places) == list(range(40_000))
    assert places_of_labels(np.zeros(0, np.int64)) == {}


def png(width, height, mode="RGBA", rows=None):
    """A PNG of one colour of any size, without ever holding its pixels: header, packed rows, end."""
    kinds = {"1": (1, 0, 1), "L": (8, 0, 1), "RGB": (8, 2, 3), "RGBA": (8, 6, 4)}
    depth, kind, channels = kinds[mode]
    row = bytes(1 + (width * depth * channels + 7) // 8)
    packer = zlib.compressobj(9)
    data = b"".join([packer.compress(row) for _ in range(height if rows is None else rows)]) + packer.flush()

    def chunk(name, content):
        return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([depth, kind, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_an_image_of_one_row_is_read(tmp_path):
    """89,478,485 x 1 pixels in 11 KB stopped a whole folder: resizing it needs a filter of 1.4 GB."""
    content = png(89_478_485, 1, "1")
    assert len(content) < 12_000
    assert decode(content, SIZE).shape == (SIZE, SIZE, 3)
    assert thumbnail(content, SIZE)


def test_the_header_of_an_image_that_is_too_large_is_enough_to_refuse_it():
    with pytest.raises(NotAnImage, match="20000x20000 pixels, more than the limit"):
        decode(png(20_000, 20_000, "1", rows=1), SIZE)
    assert MOST_PIXELS >= 200_000_000, "photographs of 200 megapixels are real"


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "I;16", "F", "P", "LA"])
def test_an_image_that_is_reduced_in_tiles_looks_like_one_that_is_not(mode, monkeypatch):
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (7, 9, 4), dtype=np.uint8)
    image = Image.fromarray(small).resize((400, 320), Image.Resampling.BICUBIC)
    if mode in ("I;16", "F"):
        values = np.asarray(image.convert("L")).astype(np.uint16) * 257
        image = Image.fromarray(values if mode == "I;16" else values.astype(np.float32))
    else:
        image = image.convert(mode)
    file = io.BytesIO()
    image.save(file, "TIFF" if mode == "F" else "PNG")
    whole, small_page = decode(file.getvalue(), SIZE), thumbnail(file.getvalue(), SIZE)
    monkeypatch.setattr("tpn.images.decoding.LARGE", 1000)
    monkeypatch.setattr("tpn.images.decoding.TILE", 3000)
    reduced = decode(file.getvalue(), SIZE)
    assert np.abs(reduced.astype(int) - whole).max() <= 20
    assert np.abs(reduced.astype(int) - whole).mean() < 2
    pages = [Image.open(io.BytesIO(page)) for page in (small_page, thumbnail(file.getvalue(), SIZE))]
    assert pages[0].size == pages[1].size


def test_a_large_transparent_image_takes_little_more_memory_than_its_pixels(tmp_path):
    """9,400 x 9,400 pixels of RGBA are 353 MB; decoding took 2.3 GB. Here it is a third of that, in its own process."""
    import subprocess
    import sys

    (tmp_path / "large.png").write_bytes(png(5400, 5400))
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from tpn.images.decoding import decode\n"
        "content = Path(sys.argv[1]).read_bytes()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert decode(content, 84).mean() == 255\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    used = int(subprocess.check_output([sys.executable, "-c", code, str(tmp_path / "large.png")], text=True)) * 1024
    assert used < 1.8 * 5400 * 5400 * 4


def test_a_large_image_is_turned_as_its_orientation_says(monkeypatch):
    pixels = np.zeros((300, 400, 3), np.uint8)
    pixels[:150] = 200
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    for form in ("PNG", "TIFF"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, form, exif=exif)
        whole = decode(file.getvalue(), SIZE)
        with monkeypatch.context() as patch:
            patch.setattr("tpn.images.decoding.LARGE", 1000)
            reduced = decode(file.getvalue(), SIZE)
        assert whole[:, -1].mean() > 150 > whole[:, 0].mean()
        assert np.abs(reduced.astype(int) - whole).mean() < 4
