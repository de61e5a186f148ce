"""tpn methods: list the few-shot methods."""

import json
from dataclasses import asdict, dataclass

from tpn.cli.parsing import Flag, parse
from tpn.methods._registry import all_methods


@dataclass(frozen=True)
class Methods:
    """List every few-shot method: its name, its paper, and whether queries share information (transduction)."""

    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    options = parse(Methods, "tpn methods", arguments)
    infos = [method.info for method in all_methods().values()]
    if options.json:
        print(json.dumps({"methods": [asdict(info) for info in infos]}))
        return 0
    width = max(len("method"), *(len(info.name) for info in infos))
    print(f"{'method':<{width}}  transduction  paper")
    for info in infos:
        print(f"{info.name:<{width}}  {info.transduction:<12}  {info.paper}")
    return 0
