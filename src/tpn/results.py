"""The base class of the results of public functions."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tpn.errors import TPNError

if TYPE_CHECKING:
    import pandas as pd


class Result(ABC):
    """Result of a public function: prints as a short table, and converts to plain data or a DataFrame."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python data, as `--json` prints it."""

    @abstractmethod
    def summary(self) -> str:
        """Return a short table of the result."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `to_dataframe`; by default one row with all scalar values of `to_dict`."""
        return [{name: value for name, value in self.to_dict().items() if not isinstance(value, dict | list)}]

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the result as a pandas DataFrame, if pandas is installed."""
        try:
            import pandas as pd
        except ImportError:
            raise TPNError("to_dataframe needs pandas: `pip install pandas`.") from None
        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        return self.summary()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the table, not the fields, at the end of a notebook cell."""
        printer.text(self.summary())
