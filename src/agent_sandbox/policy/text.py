"""Words of messages, and untrusted text in them: escaped and bounded, so that it cannot forge lines or colours."""

MAX_SHOWN = 80
MACHINE = "the Docker host"
# Its name in a container. The stack maps it to an address only in the proxy container.
MACHINE_NAME = "host.docker.internal"


def safe_repr(text: str) -> str:
    r"""Return the text quoted, escaped and cut to `MAX_SHOWN` characters.

    >>> safe_repr("a\n\x1b[31m")
    "'a\\n\\x1b[31m'"
    """
    return ascii(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
