"""The one exception that users catch, and the one warning."""


class TPNError(Exception):
    """Something a user can mend: a wrong setting, a damaged file, a full disk.

    Its text is one paragraph that says what was wrong, where, and what would be right. The command line prints it on
    standard error and ends with exit code 2.
    """


class TPNWarning(UserWarning):
    """Something that a user should know, but that need not be mended."""
