"""The number of CPU threads that a command may use. Nothing here needs torch."""

from tpn.errors import TPNError

MOST_THREADS = 1024


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that makes no sense."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise TPNError(f"--threads must be at least 1 and at most {MOST_THREADS}, not {threads}.")
