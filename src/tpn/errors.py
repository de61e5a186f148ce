"""The exception that users catch, and the warning."""

import re

_FLAG = re.compile(r"`[^`]*`|--([a-z](?:[a-z0-9-]*[a-z0-9])?)")


class TPNError(Exception):
    """An error that the user can fix: a wrong setting, a damaged file, a full disk.

    The text is one paragraph that says what is wrong, where, and how to fix it. The command line prints it on standard
    error and exits with code 2.

    Options are written as flags (`--halve-every`) in the text. Python users see the keyword argument (`halve_every`)
    instead, and the command line prints `command_line_text`; commands between backticks are unchanged.
    """

    def __str__(self) -> str:
        return with_keywords(self.command_line_text)

    @property
    def command_line_text(self) -> str:
        """The text with options written as flags."""
        return super().__str__()


class TPNWarning(UserWarning):
    """A warning about something that the user should know but need not fix."""


def with_keywords(text: str) -> str:
    """Return a text with options written as keyword arguments instead of flags."""
    return _FLAG.sub(_as_keyword, text)


def _as_keyword(match: re.Match[str]) -> str:
    return match.group(0) if match.group(1) is None else match.group(1).replace("-", "_")


class Interrupted(KeyboardInterrupt):
    """Raised when a signal (Ctrl-C, SIGTERM) stopped the work, after everything was saved."""

    def __init__(self, text: str, signal: int) -> None:
        super().__init__(text)
        self.signal = signal
