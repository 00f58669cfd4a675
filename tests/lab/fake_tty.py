"""A terminal, and somebody who sits at it."""

import io
from typing import override


class Screen(io.StringIO):
    """A terminal that records its output. Its width comes from COLUMNS."""

    @override
    def isatty(self) -> bool:
        return True


class Person(io.StringIO):
    """A person who types this, and then nothing more."""

    @override
    def isatty(self) -> bool:
        return True
