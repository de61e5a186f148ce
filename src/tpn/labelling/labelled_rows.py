"""One image of a labelled folder, as all exports take it."""

from typing import NamedTuple


class LabelledRow(NamedTuple):
    """An image, its label and how sure that is."""

    path: str
    """Relative to the folder."""
    label: str
    """Empty if the image is too doubtful, or marked as of none of the classes."""
    confidence: float
    given: bool
    guess: str = ""
    """The most probable class, also of doubtful images."""
    second: str = ""
    """The second most probable class, if there is any."""
    second_confidence: float = 0.0

    @property
    def source(self) -> str:
        """Where the label comes from: given, guess, or doubtful if there is none."""
        return "given" if self.given else "guess" if self.label else "doubtful"
