"""tpn backbones: list the networks that embed images."""

import json
from dataclasses import dataclass

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.options import Flag


@dataclass(frozen=True)
class Backbones:
    """List every backbone that --backbone takes by name: built in, or from installed packages."""

    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Backbones = parse(Backbones, "tpn backbones", arguments)
    names = tpn.list_backbones()
    print(json.dumps({"backbones": names}) if options.json else "\n".join(names))
    return 0
