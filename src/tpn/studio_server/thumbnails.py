"""Small and large copies of images for the page: always re-encoded, small ones made once."""

import sqlite3
import threading
import warnings
from collections import OrderedDict
from pathlib import Path

from tpn.files import make_folder
from tpn.images.decoding import NotAnImage, thumbnail
from tpn.images.file_containers import LARGEST_FILE
from tpn.labelling.feature_cache import facts_of, path_key

SIZE, PREVIEW_SIZE = 224, 1600
FILE = "thumbnails.sqlite"
AT_ONCE = 3
"""Images that are decoded at once: more would only take memory."""
MOST_PREVIEWS = 12


class Thumbnails:
    """JPEG copies of images by path; in a database of the cache folder, as long as a file does not change."""

    def __init__(self, cache: Path) -> None:
        self._lock, self._decoding = threading.Lock(), threading.Semaphore(AT_ONCE)
        self._previews: OrderedDict[tuple[Path, str], bytes] = OrderedDict()
        try:
            make_folder(cache)
            self._database: sqlite3.Connection | None = sqlite3.connect(
                cache / FILE, timeout=10, check_same_thread=False, isolation_level=None
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=OFF")  # a lost thumbnail is made again
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS thumbnails (path TEXT PRIMARY KEY, facts TEXT, image BLOB)"
            )
        except Exception:  # a damaged or read-only cache only costs time
            self._database = None

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def small(self, file: Path) -> bytes | None:
        """Return a thumbnail, or None if the file is gone or not an image."""
        facts = facts_of(file)
        if facts is None:
            return None
        key, stamp = path_key(file), f"{SIZE} {facts}"
        row = self._run("SELECT facts, image FROM thumbnails WHERE path = ?", (key,))
        if row and row[0] == stamp and isinstance(row[1], bytes):
            return row[1]
        made = self._make(file, SIZE)
        if made is not None:
            self._run("INSERT OR REPLACE INTO thumbnails VALUES (?, ?, ?)", (key, stamp, made))
        return made

    def large(self, file: Path) -> bytes | None:
        """Return a preview that fills a screen, or None if the file is gone or not an image."""
        facts = facts_of(file)
        if facts is None:
            return None
        with self._lock:
            known = self._previews.get((file, facts))
        if known is None and (known := self._make(file, PREVIEW_SIZE)) is not None:
            with self._lock:
                self._previews[file, facts] = known
                while len(self._previews) > MOST_PREVIEWS:
                    self._previews.popitem(last=False)
        return known

    def _make(self, file: Path, size: int) -> bytes | None:
        try:
            if not file.is_file() or file.stat().st_size > LARGEST_FILE:  # reading a pipe would wait
                return None
            with self._decoding, warnings.catch_warnings():
                return thumbnail(file.read_bytes(), size)
        except (OSError, NotAnImage, MemoryError):
            return None

    def _run(self, statement: str, values: tuple[object, ...]) -> tuple[object, ...] | None:
        with self._lock:
            if self._database is None:
                return None
            try:
                found: tuple[object, ...] | None = self._database.execute(statement, values).fetchone()
                return found
            except sqlite3.Error:
                return None
