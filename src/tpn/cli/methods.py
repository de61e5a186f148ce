"""tpn methods: list the few-shot methods."""

import json
from dataclasses import dataclass

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.options import Flag


@dataclass(frozen=True)
class Methods:
    """List every few-shot method: its name, its paper, and whether queries share information (transduction)."""

    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options: Methods = parse(Methods, "tpn methods", arguments)
    methods = tpn.describe_methods()
    print(json.dumps(methods.to_dict()) if options.json else methods)
    return 0
