"""The paths in the project and the images that a project file may name."""

import re

LONGEST_PATH = 500
# Editors put variables of the host machine into `${...}`, and a `-` at the beginning would be an option.
SCRIPT = re.compile(r"(?!-)[A-Za-z0-9_.+@/-]+", re.ASCII)
IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(:[0-9]{1,5}(?=/))?(/[a-z0-9][a-z0-9._-]{0,99}){0,9}"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def is_below(path: str) -> bool:
    """Return whether a relative path stays below the project's root, without `..`.

    >>> is_below("scripts/setup.sh"), is_below("../x"), is_below("/x"), is_below("x/")
    (True, False, False, False)
    """
    return path.isprintable() and len(path) <= LONGEST_PATH and not {"", ".", ".."}.intersection(path.split("/"))


def is_script(path: str) -> bool:
    """Return whether a path can be the setup script's: only plain characters, and not in `.git`.

    >>> is_script("scripts/setup.sh"), is_script(".GIT/hooks/x"), is_script("${localEnv:TOKEN}")
    (True, False, False)
    """
    return is_below(path) and bool(SCRIPT.fullmatch(path)) and path.split("/", maxsplit=1)[0].casefold() != ".git"


def is_image(name: str) -> bool:
    """Return whether this can be the name of an image.

    >>> is_image("registry.test:5000/debian:trixie-slim"), is_image("--debian"), is_image("a b")
    (True, False, False)
    """
    return bool(IMAGE.fullmatch(name))


def is_pinned(image: str) -> bool:
    """Return whether the name of an image has a digest: it then means the same content each time.

    >>> is_pinned("postgres:17@sha256:0"), is_pinned("postgres:17")
    (True, False)
    """
    return "@sha256:" in image
