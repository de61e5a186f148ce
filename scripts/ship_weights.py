"""Copy a run into the package, without its checkpoint and without paths of this computer.

    python -m scripts.ship_weights runs/mini-conv4 mini-conv4 --data mini-imagenet:FILE [--init mini-conv4-pretrained]

The mean feature of the training classes, which heads subtract, is computed and put beside the weights.
"""

import argparse
import json
import shutil
from pathlib import Path

from tpn.digests import with_digest
from tpn.evaluation.subject import open_run
from tpn.files import make_folder, write_json
from tpn.runs.folder import Run
from tpn.runs.shipped import SHIPPED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--data", required=True, help="the images that it was trained on")
    parser.add_argument("--init", help="the shipped run that it was started with")
    options = parser.parse_args()
    source, shipped = Run(options.run), Run(SHIPPED / options.name)
    shutil.rmtree(shipped.folder, ignore_errors=True)
    make_folder(shipped.folder)
    content = json.loads(source.config_file.read_text())
    del content["digest"]
    content |= {"data": content["data"].partition(":")[0], "init": options.init}
    write_json(shipped.config_file, with_digest(content))
    for file in (source.metrics_file, source.model_file):
        shutil.copyfile(file, shipped.folder / file.name)
    open_run(shipped, options.data, as_method="simple-shot")
    for file in sorted(shipped.folder.iterdir()):
        print(f"{file.stat().st_size:>9} {file.name}")


if __name__ == "__main__":
    main()
