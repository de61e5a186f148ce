"""tpn studio: label a folder in the browser."""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import tpn
from tpn.cli.parsing import parse
from tpn.errors import TPNError
from tpn.files import find_folder
from tpn.progress import say
from tpn.workflows.keywords import option_fields
from tpn.workflows.studio_options import StudioOptions

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class StudioCommand(StudioOptions):
    """Label a folder of images in the browser, and watch the labels spread.

    A page opens that shows the images and what each of them is likely to be. You can begin without any label; every
    label that you give propagates to all other images. Labels are kept in the folder's session (.tpn) as you give them:
    close the page or stop the command at any time, and continue later.
    """

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The images: all in this folder and below."""


def main(arguments: list[str]) -> int:
    if sum(argument.partition("=")[0] == "--labels" for argument in arguments) > 1:  # only the last would count
        raise TPNError("Give --labels once, followed by all lists: --labels FILE.csv FILE.csv.")
    options: StudioCommand = parse(StudioCommand, "tpn studio", arguments)
    find_folder(options.folder)  # before NumPy is loaded
    with tpn.studio(
        options.folder, **{name: getattr(options, name) for name in option_fields(StudioOptions)}
    ) as opened:
        print(opened.url, flush=True)
        if options.host not in LOOPBACK:
            say(
                "Other computers can reach this address. Whoever has it, with its token, can see the images and change "
                "labels; the connection is not encrypted."
            )
        say("Labels are saved as you give them. Press Ctrl-C to stop.")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            opened.wait()
        except KeyboardInterrupt:
            say("")
    return 0
