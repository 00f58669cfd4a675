"""Keep memory that was just freed for whoever asks next."""

KEPT = 1024 * 1024


def keep_freed_memory() -> None:
    """Have glibc keep up to twice `KEPT` bytes of freed memory, which elsewhere does nothing.

    It gives blocks back to the kernel from 128 KiB on, until it has seen a larger one freed. The buffers of a body are
    larger: to have each of their pages anew, filled with zeros, took more than a third of what a download cost.
    """
    bytes(KEPT)
