"""The journal of a labelling session: one line for each action, on disk before the action is acknowledged."""

import json
import os
import re
import warnings
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

from tpn.errors import TPNError, TPNWarning
from tpn.files import explaining_failure, holding, make_folder, sync_folder

FILE = "journal.jsonl"
SET_ASIDE = "journal-incomplete.txt"
FORMAT = 1
LARGEST_JOURNAL = 2**32
ENDING = re.compile(rb', "sum": "([0-9a-f]{8})"\}$')

Action: TypeAlias = dict[str, Any]


class Journal:
    """An append-only file of actions. `append` returns once the action is on disk (fsync).

    Each line is a JSON object that ends with a checksum. A process that is killed while it writes leaves at most a
    last line that is incomplete: it was never acknowledged, and is removed when the journal is opened again. Damage
    anywhere else is refused. One process at a time can hold a journal.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        make_folder(folder)
        self._held = ExitStack()
        self._held.enter_context(
            holding(
                folder, f"Another process uses the session in {folder}: stop it, or choose another --session-folder."
            )
        )
        try:
            self.actions = self._read()
            with explaining_failure(self.file):
                self._handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            self._held.callback(os.close, self._handle)
            self._broken = False
            if os.fstat(self._handle).st_size == 0:
                self._write({"journal": FORMAT})
                sync_folder(folder)
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        """Release the journal for other processes."""
        self._held.close()

    def append(self, action: Action) -> None:
        """Write an action, and wait until it is on disk. If that fails, nothing of it remains."""
        self._write(action)
        self.actions.append(action)

    def _write(self, action: Action) -> None:
        if self._broken:
            raise TPNError(
                f"An earlier write to {self.file} failed: restart tpn to continue from its last complete line."
            )
        line = _as_line(action)
        size = os.fstat(self._handle).st_size
        with explaining_failure(self.file):
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._handle, line[written:])
                os.fsync(self._handle)
            except OSError:
                try:
                    os.ftruncate(self._handle, size)  # a full disk: what is there stays whole
                except OSError:
                    self._broken = True
                raise

    def _read(self) -> list[Action]:
        try:
            if not self.file.exists():
                return []
            if self.file.stat().st_size > LARGEST_JOURNAL or not self.file.is_file():
                raise TPNError(f"{self.file} is not a journal of tpn.")
            content = self.file.read_bytes()
        except OSError as failure:
            raise TPNError(f"Cannot read {self.file}: {failure.strerror or failure}.") from failure
        lines = content.split(b"\n")
        complete, tail = lines[:-1], lines[-1]
        actions = [_from_line(line) for line in complete]
        if actions and actions[-1] is None and len(actions) > 1:  # written in part when the power failed
            tail = complete.pop() + b"\n" + tail
            actions.pop()
        for number, action in enumerate(actions, 1):
            if action is None:
                raise TPNError(
                    f"{self.file} is damaged in line {number}: its checksum does not match. Restore the file from a "
                    "copy, or delete this line to continue without the action in it."
                )
        if tail:
            self._set_aside(tail, len(content) - len(tail))
        if not actions:
            return []
        first = actions[0]
        if not isinstance(first, dict) or first.get("journal") != FORMAT:
            raise TPNError(f"{self.file} was written by a newer version of tpn, or is not a journal of tpn.")
        return [action for action in actions[1:] if action is not None]

    def _set_aside(self, tail: bytes, size: int) -> None:
        """Remove an incomplete last line; it is kept in a file beside the journal."""
        with explaining_failure(self.file):
            (self.file.parent / SET_ASIDE).write_bytes(tail)
            os.truncate(self.file, size)
        warnings.warn(
            f"The last line of {self.file} is incomplete, as after a power failure: it is left out, and kept in "
            f"{SET_ASIDE} beside it.",
            TPNWarning,
            stacklevel=2,
        )


def _as_line(action: Action) -> bytes:
    body = json.dumps(action, allow_nan=False)  # in ASCII: names of files need not be valid Unicode
    return f'{body[:-1]}, "sum": "{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def _from_line(line: bytes) -> Action | None:
    """Return the action in a line, or None if the line is not as it was written."""
    ending = ENDING.search(line)
    if ending is None:
        return None
    body = line[: ending.start()] + b"}"
    if zlib.crc32(body) != int(ending[1], 16):
        return None
    try:
        action = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return action if isinstance(action, dict) else None
