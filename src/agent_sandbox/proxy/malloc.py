"""Make glibc reuse freed memory instead of returning it to the kernel."""

KEPT = 1024 * 1024


def keep_freed_memory() -> None:
    """Make glibc keep up to twice `KEPT` bytes of freed memory. Has no effect with other C libraries.

    glibc returns blocks of 128 KiB and more to the kernel until it has seen a larger one freed. The buffers of a body
    are larger; getting their pages again, filled with zeros, took more than a third of the cost of a download.
    """
    bytes(KEPT)
