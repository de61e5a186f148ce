"""Cells of csv files that a spreadsheet must not take for formulas.

A file called `=HYPERLINK(…).png` would become a formula when labels.csv is opened in a spreadsheet. Such a cell is
written with an apostrophe before it, which spreadsheets take as the mark of a text, and read back without it.
"""

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def guarded(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(FORMULA) and not _is_number(cell) else cell


def without_guard(cell: str) -> str:
    """Return a cell as it was before `guarded`."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def as_csv(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as the text of a csv file, without formulas; the same in every locale."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([guarded(cell) for cell in row] for row in rows)
    return stream.getvalue()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
