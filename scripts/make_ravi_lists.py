"""Make src/tpn/images/mini_imagenet/ravi.csv from train.csv, val.csv and test.csv of Ravi and Larochelle.

    python scripts/make_ravi_lists.py FOLDER

A file name in those lists, such as n0153282900000005.jpg, is a class and the rank of an image, from 1, among the files
of that class in ILSVRC-2012, sorted by name. Ranks become the bits of a base64 number.
"""

import base64
import csv
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent.parent / "src/tpn/images/mini_imagenet/ravi.csv"
WORDNET_ID = 9
MOST_FILES = 1300
"""No class of ILSVRC-2012 has more."""


def main(folder: Path) -> None:
    lines = ["split,class,ranks"]
    for split in ("train", "val", "test"):
        ranks: dict[str, list[int]] = {}
        with (folder / f"{split}.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                ranks.setdefault(row["label"], []).append(int(Path(row["filename"]).stem[WORDNET_ID:]))
        for class_ in sorted(ranks):
            bits = np.zeros(MOST_FILES, np.uint8)
            bits[np.array(ranks[class_]) - 1] = 1
            lines.append(f"{split},{class_},{base64.b64encode(np.packbits(bits).tobytes()).decode()}")
    TARGET.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
