"""Keeping freed memory for the next training step instead of returning it to the operating system.

glibc returns every large block at once. The feature maps of a step are hundreds of megabytes, so each step would have
them all mapped and zeroed again, page by page: at 84x84 pixels that is up to half of a step's time. The commands of
`tpn` keep the memory instead; a library must not decide that for the process that imports it, so importing tpn
changes nothing.
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Make glibc's allocator keep freed memory; return whether it took effect (False without glibc)."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = (
        (M_MMAP_MAX, 0),  # large blocks come from the heap, where they can be reused
        (M_ARENA_MAX, 1),  # the backward pass runs in a thread of its own and must find the same heap
        (M_TRIM_THRESHOLD, 2**31 - 1),  # the heap does not shrink
        (M_TOP_PAD, 64 * 2**20),  # and grows in large pieces
    )
    taken = [mallopt(parameter, value) for parameter, value in settings]
    return all(taken)


def give_back_freed_memory() -> None:
    """Return free memory to the operating system; call it from time to time against fragmentation."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
