"""A cache of features, by the content of image files."""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpn.errors import TPNError
from tpn.files import is_text, make_folder

FILE = "features.sqlite"
AT_ONCE = 500


class FeatureCache:
    """A database of features in the cache folder.

    A known file is recognised by its path, size and modification time without being read; a moved or copied one by its
    content. Everything that was put in is kept if the program is interrupted.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.file = folder / FILE
        try:
            self._database = sqlite3.connect(self.file, timeout=60)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, facts TEXT NOT NULL, content BLOB NOT NULL)"
            )
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS features "
                "(network TEXT, content BLOB, numbers BLOB NOT NULL, PRIMARY KEY (network, content)) WITHOUT ROWID"
            )
        except sqlite3.Error as failure:
            raise self._unusable(failure) from failure

    def __enter__(self) -> "FeatureCache":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def contents(self, files: Sequence[Path]) -> list[bytes | None]:
        """Return the digest of each file's content, or None if the file is new or has changed."""
        query = "SELECT path, facts, content FROM files WHERE path IN"
        known = self._look_up(query, [path_key(file) for file in files])
        seen = {path: (facts, content) for path, facts, content in known}
        return [
            content if (facts == facts_of(file)) else None
            for file in files
            for facts, content in [seen.get(path_key(file), (None, None))]
        ]

    def features(self, network: str, contents: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """Return the features of these contents by this network, as far as they are in the cache."""
        query = "SELECT content, numbers FROM features WHERE network = ? AND content IN"
        rows = self._look_up(query, list(contents), network)
        return {content: np.frombuffer(numbers, "<f4") for content, numbers in rows}

    def put_files(self, files: Iterable[tuple[Path, str, bytes]]) -> None:
        """Remember the contents of files: path, facts (taken before it was read), digest."""
        rows = [(path_key(file), facts, content) for file, facts, content in files]
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)

    def put_features(self, network: str, features: Iterable[tuple[bytes, np.ndarray]]) -> None:
        """Keep features of a network by the content of their image."""
        rows = [(network, content, numbers.astype("<f4").tobytes()) for content, numbers in features]
        self._write("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)

    def _look_up(self, query: str, keys: list[bytes] | list[str], *before: str) -> list[tuple[Any, ...]]:
        found = []
        try:
            for start in range(0, len(keys), AT_ONCE):
                part = keys[start : start + AT_ONCE]
                places = ", ".join("?" * len(part))
                found += self._database.execute(f"{query} ({places})", (*before, *part)).fetchall()
        except sqlite3.Error as failure:
            raise self._unusable(failure) from failure
        return found

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            with self._database:
                self._database.executemany(statement, rows)
        except sqlite3.Error as failure:
            raise self._unusable(failure) from failure

    def _unusable(self, failure: Exception) -> TPNError:
        return TPNError(
            f"The cache of features {self.file} cannot be used: {failure}. Remove it, or choose another --cache."
        )


def digest(content: bytes) -> bytes:
    """Return a digest of the content of a file."""
    return hashlib.sha256(content).digest()[:16]


def path_key(file: Path) -> str:
    """Return a path as text that the database can hold, whatever bytes it has."""
    return str(file).encode("utf-8", "surrogateescape").hex() if not is_text(str(file)) else str(file)


def facts_of(file: Path) -> str | None:
    """Return size, modification time and inode: they change when a file is written."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ino}"
