"""The `tpn` command: one file per subcommand, each imported only when it is called."""

import io
import os
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

from tpn.errors import Interrupted, TPNError, TPNWarning
from tpn.progress import tell
from tpn.text import shortened

COMMANDS = {
    "label": "label the rest of a folder of images, from the labels of a few",
    "studio": "label a folder of images in the browser, and watch the labels spread",
    "embed": "embed a folder of images once, into shards of features, here or on a Ray cluster",
    "predict": "classify single images, given a few labelled ones of each class",
    "train": "train a method by episodes, or resume a training",
    "pretrain": "pre-train a backbone on all training classes, for tpn train --init",
    "splits": "train and test a semi-supervised method on several partitions into labelled and unlabelled images",
    "evaluate": "test a trained method on classes it has never seen",
    "compare": "test several methods on the same episodes, with paired differences",
    "benchmark": "test many heads on the backbone of a run, in balanced and realistic settings",
    "paper": "run an experiment of the paper, and compare the results with the published numbers",
    "plot": "plot a run's learning curve, and an episode",
    "methods": "list the few-shot methods",
    "backbones": "list the networks that embed images, and fetch stronger ones",
    "data": "look at the images, and prepare your own: tpn data --help",
}

HELP = f"""usage: tpn COMMAND [options]

Few-shot image classification by label propagation.

commands:
{chr(10).join(f"  {name:<10} {what}" for name, what in COMMANDS.items())}

Try it on the drawings that ship with the package:
  tpn train tpn --episodes 1000 --out runs/first
  tpn evaluate runs/first --shot 1
  tpn plot runs/first

Or on your own images:
  tpn studio photos
  tpn label photos --labels few.csv --suggest 20

`tpn COMMAND --help` explains a command and all its options; `tpn --version` prints the version.
"""

NO_MEMORY = "There is not enough memory for this. Choose smaller images, smaller episodes or a smaller --backbone."


def share_the_processor() -> None:
    """Make threads that wait for each other sleep instead of spin. Call it before importing torch.

    Spinning threads cost far more time than they save as soon as something else runs on the machine: on two cores with
    one of them busy, training was 14 times as fast without spinning; with both free, it was equally fast.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        nowhere = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± shows a ? instead
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
    except Interrupted as stop:
        tell(str(stop))
        return 128 + stop.signal
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output has closed the pipe
        drop_output()
        return 128 + signal.SIGPIPE
    except MemoryError:
        return refuse(NO_MEMORY)
    except RuntimeError as error:
        if not any(words in str(error) for words in ("can't allocate memory", "out of memory")):
            raise
        return refuse(NO_MEMORY)  # how torch reports a lack of memory
    except (OSError, UnicodeError) as error:  # a folder without permission, a name that cannot be encoded, …
        drop_output()
        return refuse(f"The operating system reported an error: {error}.")


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
    from tpn.allocator import keep_freed_memory  # not for --help, which answers at once

    keep_freed_memory()
    code: int = import_module(f"tpn.cli.{name}").main(arguments)
    return code


def note(message: Warning | str, *_: Any) -> None:
    """Print a warning as a line on standard error."""
    tell(f"Note: {shortened(' '.join(str(message).splitlines()))}")


def refuse(why: str) -> int:
    """Print an error that the user can fix, as one paragraph; return the exit code."""
    tell(f"tpn: {shortened(' '.join(why.splitlines()))}")
    return 2


def drop_output() -> None:
    """Drop what is still to be printed, where nobody can take it: Python would report it at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
