"""Somebody who sits at a terminal."""

import io
from typing import override


class Person(io.StringIO):
    """A person who types this, and then nothing more."""

    @override
    def isatty(self) -> bool:
        return True
