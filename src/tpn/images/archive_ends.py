"""Whether an archive ends as its format demands: one that was cut or damaged must not pass for a smaller one."""

import struct
import tarfile
import zipfile
from pathlib import Path

from tpn.errors import TPNError

BLOCK = 512
MOST_PADDING = 2**24
"""Programs fill tar archives up to the size of their records, which is far less."""
END_OF_ZIP = struct.Struct("<4s4H2IH")
"""The last record of a zip archive: mark, two disk numbers, entries on this disk and in all, size and place of the
directory, length of the comment."""
MARK, LONGEST_COMMENT, ZIP64 = b"PK\5\6", 2**16 - 1, 2**16 - 1


def check_tar_end(archive: tarfile.TarFile, title: object) -> None:
    """Refuse a tar archive, all of whose members have been listed, that does not end in two or more zero blocks.

    Python's tarfile stops at a damaged header as it does at the end.
    """
    stream = archive.fileobj
    assert stream is not None, "it is open"
    stream.seek(archive.offset)
    rest = stream.read(MOST_PADDING + 1)
    if not rest or any(rest[:BLOCK]):
        raise TPNError(
            f"{title} is damaged: {'it is cut off' if len(rest) < BLOCK else 'the header of an entry is damaged'} "
            f"after {len(archive.getmembers()):,} entries. Fetch or make the archive again."
        )
    if len(rest) < 2 * BLOCK:
        raise TPNError(f"{title} is damaged: its end-of-archive marker is cut off. Fetch or make the archive again.")
    if len(rest) > MOST_PADDING or rest.count(0) != len(rest):
        raise TPNError(
            f"{title} is damaged, or several archives in one: it has more data after its end, at byte "
            f"{archive.offset:,}. Fetch or make the archive again."
        )


def check_zip_end(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip archive with data after its end, or with another number of entries than its end says."""
    with open(path, "rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - END_OF_ZIP.size - LONGEST_COMMENT))
        tail = stream.read()
    places = [place for place in _occurrences(tail) if _ends_at(tail, place)]
    if not places:
        raise TPNError(f"{path} is damaged: it has more data after its end. Fetch or make the archive again.")
    said = END_OF_ZIP.unpack_from(tail, places[0])[4]
    found = len(archive.infolist())
    if said not in (found, ZIP64):
        raise TPNError(f"{path} is damaged: it has {found:,} entries, but its end record says {said:,}.")


def _occurrences(tail: bytes) -> list[int]:
    places, place = [], tail.rfind(MARK)
    while place >= 0:
        places.append(place)
        place = tail.rfind(MARK, 0, place)
    return places


def _ends_at(tail: bytes, place: int) -> bool:
    """Whether the record at this place, with its comment, reaches exactly to the end."""
    if place + END_OF_ZIP.size > len(tail):
        return False
    comment: int = END_OF_ZIP.unpack_from(tail, place)[-1]
    return place + END_OF_ZIP.size + comment == len(tail)
