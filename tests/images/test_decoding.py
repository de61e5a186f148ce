"""Images of every kind look in the store as they look to people."""

import contextlib
import io
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tpn.images.decoding import MOST_PIXELS, NotAnImage, decode, image_suffixes
from tpn.images.decoding_budget import LARGE, PixelBudget


def saved(image, form, **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def gradient(size=16):
    """Red grows to the right, green downwards."""
    ramp = np.linspace(0, 255, size).round().astype(np.uint8)
    return np.stack(
        [np.tile(ramp, (size, 1)), np.tile(ramp[:, None], (1, size)), np.full((size, size), 90, np.uint8)], -1
    )


RGB = gradient()


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM", "TGA"])
def test_exact_formats_are_read_exactly(form):
    np.testing.assert_array_equal(decode(saved(Image.fromarray(RGB), form), 16), RGB)
    assert np.abs(decode(saved(Image.fromarray(RGB), "WEBP", lossless=True), 16).astype(int) - RGB).max() <= 1


def test_grey_and_black_and_white():
    grey = Image.fromarray(RGB[..., 0])
    np.testing.assert_array_equal(decode(saved(grey, "PNG"), 16), np.repeat(RGB[..., :1], 3, -1))
    bits = np.indices((16, 16)).sum(0) % 2 * 255
    image = decode(saved(Image.fromarray(bits.astype(np.uint8)).convert("1"), "PNG"), 16)
    np.testing.assert_array_equal(image[..., 1], bits)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_16_bits_are_scaled_and_not_cut_off(form):
    values = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(16, 16)
    image = decode(saved(Image.fromarray(values), form), 16)
    np.testing.assert_array_equal(image[..., 0], np.arange(256).reshape(16, 16))


def test_floats_from_0_to_1_or_255():
    values = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    for scale in (1, 255, 65535):
        image = decode(saved(Image.fromarray(values * scale), "TIFF"), 16)
        np.testing.assert_array_equal(image[..., 2], np.arange(256).reshape(16, 16))
    with pytest.raises(NotAnImage, match="not finite"):
        decode(saved(Image.fromarray(values * np.nan), "TIFF"), 16)


def test_32_bits():
    values = np.arange(256, dtype=np.int32).reshape(16, 16)
    for scale in (1, 257):
        np.testing.assert_array_equal(decode(saved(Image.fromarray(values * scale), "TIFF"), 16)[..., 1], values)


def test_transparent_pixels_are_white():
    alpha = np.full((16, 16, 1), 255, np.uint8)
    alpha[:8] = 0
    image = decode(saved(Image.fromarray(np.concatenate([RGB, alpha], -1)), "PNG"), 16)
    assert (image[:8] == 255).all()
    np.testing.assert_array_equal(image[8:], RGB[8:])
    palette = Image.new("P", (16, 16), 3)
    palette.putpalette([10, 20, 30] * 256)
    palette.paste(7, (0, 0, 16, 8))
    image = decode(saved(palette, "PNG", transparency=7), 16)
    assert (image[:8] == 255).all()
    assert (image[8:] == (10, 20, 30)).all()
    half = Image.new("LA", (16, 16), (0, 128))
    assert abs(int(decode(saved(half, "PNG"), 16)[0, 0, 0]) - 127) <= 1


def test_palettes():
    image = Image.fromarray(RGB).quantize(64)
    np.testing.assert_array_equal(decode(saved(image, "PNG"), 16), np.asarray(image.convert("RGB")))
    frames = [Image.new("P", (16, 16), colour) for colour in (1, 2)]
    for frame in frames:
        frame.putpalette([0, 0, 0, 200, 0, 0, 0, 200, 0])
    first = decode(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), 16)
    assert (first == (200, 0, 0)).all()


def test_cmyk():
    image = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    for form in ("TIFF", "JPEG"):
        red, green, blue = decode(saved(image, form), 16)[8, 8].astype(int)
        assert red < 10
        assert green > 245
        assert blue > 245


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [(2, RGB[:, ::-1]), (3, RGB[::-1, ::-1]), (4, RGB[::-1]), (6, np.rot90(RGB, -1)), (8, np.rot90(RGB, 1))],
)
def test_rotated_by_exif(orientation, upright):
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(decode(saved(Image.fromarray(RGB), "PNG", exif=exif), 16), upright)
    jpeg = decode(saved(Image.fromarray(RGB), "JPEG", exif=exif, quality=95, subsampling=0), 16)
    assert np.abs(jpeg.astype(int) - upright).max() < 30


def test_scaling_is_antialiased_and_keeps_the_whole_image():
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    small = decode(saved(Image.fromarray(board), "PNG"), 8)
    assert np.ptp(small[1:-1, 1:-1]) <= 16
    wide = np.zeros((10, 40, 3), np.uint8)
    wide[:, 20:] = 255
    assert decode(saved(Image.fromarray(wide), "PNG"), 20)[10, 0, 0] == 0
    assert decode(saved(Image.fromarray(wide), "PNG"), 20)[10, 19, 0] == 255
    large = Image.fromarray(gradient(600))
    jpeg, exact = decode(saved(large, "JPEG", quality=95), 20), decode(saved(large, "PNG"), 20)
    assert np.abs(jpeg.astype(int) - exact).max() < 8, "JPEG's shortcut is as good"
    assert decode(saved(Image.new("RGB", (1, 1), "red"), "PNG"), 12).shape == (12, 12, 3)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "format is unknown"),
        (b"just text", "format is unknown"),
        (b"<html></html>", "format is unknown"),
        (saved(Image.fromarray(gradient(200)), "JPEG")[:900], "truncated"),
        (saved(Image.fromarray(gradient(200)), "PNG")[:150], "cannot be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "format is unknown"),
    ],
)
def test_what_is_no_image(content, why):
    with pytest.raises(NotAnImage, match=why):
        decode(content, 16)


def test_decompression_bombs_are_not_decoded():
    import struct
    import zlib

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    side = 100_000
    assert side * side > MOST_PIXELS
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    with pytest.raises(NotAnImage, match=r"100000x100000 pixels|bomb"):
        decode(bomb, 16)


def test_names_of_images():
    assert {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".webp", ".ppm"} <= image_suffixes()
    assert not {".txt", ".csv", ".eps", ".pdf", ".zip", ".pkl"} & image_suffixes()


def test_a_decoder_that_prints_on_standard_error_is_silenced(capfd):
    file = io.BytesIO()
    Image.fromarray(np.zeros((40, 50), np.uint8)).convert("1").save(file, "TIFF", compression="group4")
    damaged = bytearray(file.getvalue())
    start = damaged.find(b"\x00\x00", 8)
    for content in (bytes(damaged[:8]) + b"\xaa" * 6 + bytes(damaged[14:]), bytes(damaged[:start])):
        with contextlib.suppress(NotAnImage):
            decode(content, 20)
    assert capfd.readouterr().err == ""


def test_what_pillow_logs_of_an_image_does_not_reach_standard_error():
    """In a process of its own, in which nobody has set up logging."""
    program = """
import io, sys
from PIL import Image
from tpn.images.decoding import NotAnImage, decode
file = io.BytesIO()
Image.new("RGB", (8, 8)).save(file, "TIFF")
samples = (277).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little")
content = file.getvalue()
assert samples in content
place = content.index(samples) + 8
try:
    decode(content[:place] + (29_699).to_bytes(4, "little") + content[place + 4 :], 8)
except NotAnImage:
    sys.exit(3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")


def test_threads_share_a_budget_of_pixels(monkeypatch):
    budget, most, now, lock = PixelBudget(), 0, 0, threading.Lock()

    def work(pixels):
        nonlocal most, now
        with budget.share(pixels):
            with lock:
                now += min(pixels, LARGE)
                most = max(most, now)
            time.sleep(0.002)
            with lock:
                now -= min(pixels, LARGE)

    sizes = [LARGE // 3, LARGE // 2, 5 * LARGE, 1, LARGE] * 6
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, sizes))
    assert LARGE // 2 < most <= LARGE
