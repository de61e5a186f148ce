"""A cache of features, by the content of image files. Each row carries a digest, which is checked on reading."""

import hashlib
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tpn.errors import TPNError, TPNWarning
from tpn.files import is_text, make_folder

FILE = "features.sqlite"
FORMAT = 2
"""Format 1 had no digests: damage could not be told from features, so its rows are not read."""
AT_ONCE = 500
CHECK_BYTES = 8
DAMAGED = (1, 11, 26)
"""SQLite's codes for an unexpected schema, a corrupt file, and one that is not a database."""

Answer = TypeVar("Answer")


class FeatureCache:
    """A database of features in the cache folder.

    A known file is recognised by its path, size and modification time without being read; a moved, copied or touched
    one by its content. Everything that was put in is kept if the program is interrupted. Damage costs no more than
    time: a row whose digest does not fit counts as missing, and a file that is not a database is replaced.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.file = folder / FILE
        self._database = sqlite3.connect(":memory:")  # until the file is open
        self._trying(self._open)

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def contents(self, files: Sequence[Path]) -> list[bytes | None]:
        """Return the digest of each file's content, or None if the file is new or has changed."""
        query = "SELECT path, facts, content, digest FROM files WHERE path IN"
        known = self._look_up(query, [path_key(file) for file in files])
        seen = {
            path: (facts, content)
            for path, facts, content, check in known
            if isinstance(content, bytes) and check == _check(path, facts, content)
        }
        return [
            content if (facts is not None and facts == facts_of(file)) else None
            for file in files
            for facts, content in [seen.get(path_key(file), (None, None))]
        ]

    def features(self, network: str, contents: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """Return the features of these contents by this network, as far as they are in the cache and undamaged."""
        query = "SELECT content, numbers, digest FROM features WHERE network = ? AND content IN"
        rows = self._look_up(query, list(contents), network)
        found = {
            content: np.frombuffer(numbers, "<f4")
            for content, numbers, check in rows
            if isinstance(numbers, bytes) and len(numbers) % 4 == 0 and check == _check(network, content, numbers)
        }
        return {content: features for content, features in found.items() if np.isfinite(features).all()}

    def put_files(self, files: Iterable[tuple[Path, str, bytes]]) -> None:
        """Remember the contents of files: path, facts (taken before it was read), digest."""
        rows = [(path_key(file), facts, content) for file, facts, content in files]
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", [(*row, _check(*row)) for row in rows])

    def put_features(self, network: str, features: Iterable[tuple[bytes, np.ndarray]]) -> None:
        """Keep features of a network by the content of their image."""
        rows = [(network, content, numbers.astype("<f4").tobytes()) for content, numbers in features]
        self._write("INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)", [(*row, _check(*row)) for row in rows])

    def _look_up(self, query: str, keys: list[bytes] | list[str], *before: str) -> list[tuple[Any, ...]]:
        def look_up() -> list[tuple[Any, ...]]:
            found = []
            for start in range(0, len(keys), AT_ONCE):
                part = keys[start : start + AT_ONCE]
                places = ", ".join("?" * len(part))
                found += self._database.execute(f"{query} ({places})", (*before, *part)).fetchall()
            return found

        return self._trying(look_up)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def write() -> None:
            with self._database:
                self._database.executemany(statement, rows)

        self._trying(write)

    def _open(self) -> None:
        self._database = sqlite3.connect(self.file, timeout=60)
        # a damaged text must not fail to decode before its digest can be compared
        self._database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._database.execute("PRAGMA journal_mode=WAL")
        # without waiting for the disk after each batch: a power failure may cost the last ones, never the file
        self._database.execute("PRAGMA synchronous=NORMAL")
        with self._database:
            if self._database.execute("PRAGMA user_version").fetchone() != (FORMAT,):
                self._database.execute("DROP TABLE IF EXISTS files")
                self._database.execute("DROP TABLE IF EXISTS features")
                self._database.execute(f"PRAGMA user_version={FORMAT}")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS files "
                "(path TEXT PRIMARY KEY, facts TEXT NOT NULL, content BLOB NOT NULL, digest BLOB NOT NULL)"
            )
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS features (network TEXT, content BLOB, numbers BLOB NOT NULL, "
                "digest BLOB NOT NULL, PRIMARY KEY (network, content)) WITHOUT ROWID"
            )

    def _trying(self, act: Callable[[], Answer]) -> Answer:
        """Do something with the database; if it turns out to be damaged, begin a new one and do it there."""
        try:
            return act()
        except (sqlite3.Error, UnicodeDecodeError) as failure:  # SQLite's messages may quote what is damaged
            if not _is_damage(failure):
                raise self._unusable(failure) from failure
        try:
            self._database.close()
            for part in ("", "-wal", "-shm"):
                self.file.with_name(self.file.name + part).unlink(missing_ok=True)
            self._open()
            answer = act()
        except (sqlite3.Error, OSError) as failure:
            raise self._unusable(failure) from failure
        warnings.warn(f"The cache of features {self.file} was damaged and is being rebuilt.", TPNWarning, stacklevel=2)
        return answer

    def _unusable(self, failure: Exception) -> TPNError:
        return TPNError(
            f"The cache of features {self.file} cannot be used: {failure}. Free some space, or choose another --cache."
        )


def _is_damage(failure: Exception) -> bool:
    """Return whether the file itself is wrong, rather than the disk, the permissions or another process."""
    code = getattr(failure, "sqlite_errorcode", None)  # since Python 3.11
    if code is None:
        return not isinstance(failure, sqlite3.OperationalError)
    return code & 0xFF in DAMAGED


def _check(*columns: Any) -> bytes:
    """Return the digest that a row carries, over all of its other columns."""
    check = hashlib.blake2b(digest_size=CHECK_BYTES)
    for column in columns:
        raw = column if isinstance(column, bytes) else str(column).encode("utf-8", "surrogateescape")
        check.update(len(raw).to_bytes(8, "little") + raw)
    return check.digest()


def digest(content: bytes) -> bytes:
    """Return a digest of the content of a file."""
    return hashlib.sha256(content).digest()[:16]


def path_key(file: Path) -> str:
    """Return a path as text that the database can hold, whatever bytes it has."""
    return str(file).encode("utf-8", "surrogateescape").hex() if not is_text(str(file)) else str(file)


def facts_of(file: Path | str) -> str | None:
    """Return size, modification time and inode: they change when a file is written."""
    try:
        facts = os.stat(file)
    except OSError:
        return None
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ino}"
