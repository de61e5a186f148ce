"""The `tpn` command: one file per subcommand, each loaded only when it is called."""

import io
import os
import sys
import warnings
from importlib import import_module
from typing import Any

from tpn.errors import TPNError, TPNWarning

COMMANDS = {
    "label": "label the rest of a folder of images, from the labels of a few",
    "predict": "classify single images with a trained method",
    "train": "train a method by episodes, or continue a training",
    "pretrain": "train a backbone on all training classes, for tpn train --init",
    "splits": "train and test a semi-supervised method on several divisions into labelled and unlabelled",
    "evaluate": "test a trained method on classes it has never seen",
    "compare": "test several on the same episodes, with paired differences",
    "paper": "run an experiment of the paper, and set the outcome beside the published numbers",
    "plot": "draw a run's learning curve, and an episode",
    "methods": "list the few-shot methods",
    "data": "look at the images, and prepare your own: tpn data --help",
}

HELP = f"""usage: tpn COMMAND [options]

Few-shot image classification by label propagation.

commands:
{chr(10).join(f"  {name:<10} {what}" for name, what in COMMANDS.items())}

Try it on the drawings that come with the package:
  tpn train tpn --episodes 1000 --out runs/first
  tpn evaluate runs/first --shot 1
  tpn plot runs/first

Or on your own images:
  tpn label photos --labels few.csv --suggest 20

`tpn COMMAND --help` explains a command and all its options; `tpn --version` tells the version.
"""

NO_MEMORY = "There is not enough memory for this. Choose smaller images, smaller episodes or a smaller --backbone."


def share_the_processor() -> None:
    """Let threads that wait for each other sleep instead of spin. To be called before torch is loaded.

    Spinning threads lose far more time than they save as soon as something else runs on the machine: on two cores
    with one of them busy, training was 14 times as fast without it, and as fast with both of them free.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None or sys.stderr is None:  # closed by whoever called
        nowhere = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no ± shows a ? instead
    share_the_processor()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TPNWarning)
            warnings.showwarning = note  # type: ignore[assignment]
            code = run(arguments[0] if arguments else "--help", arguments[1:])
        sys.stdout.flush()
        return code
    except TPNError as error:
        return refuse(error.command_line_text)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone; there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        return refuse(NO_MEMORY)
    except RuntimeError as error:
        if not any(words in str(error) for words in ("can't allocate memory", "out of memory")):
            raise
        return refuse(NO_MEMORY)  # torch has words of its own for it
    except (OSError, UnicodeError) as error:  # a folder that may not be entered, a name that cannot be written, …
        return refuse(f"The system refused: {error}.")


def run(name: str, arguments: list[str]) -> int:
    """Run one command."""
    if name in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if name == "--version":
        from tpn import __version__

        print(f"tpn {__version__}")
        return 0
    if name not in COMMANDS:
        raise TPNError(f"Unknown command {name!r}: choose one of {', '.join(COMMANDS)}. See tpn --help.")
    code: int = import_module(f"tpn.cli.{name}").main(arguments)
    return code


def note(message: Warning | str, *_: Any) -> None:
    """Tell of something that a user should know: a line on standard error."""
    print("Note:", " ".join(str(message).split("\n")), file=sys.stderr, flush=True)


def refuse(why: str) -> int:
    """Say in one paragraph what a user can mend."""
    print("tpn:", " ".join(why.split("\n")), file=sys.stderr)
    return 2
