"""The escape sequences of each printable ASCII character, as servers write them in URLs, HTML, JSON and source code."""

from functools import cache
from html.entities import html5
from itertools import product
from string import punctuation

ZEROS = tuple("0" * count for count in range(7))  # leading zeros as in `&#0000043;`; no encoder writes more
DOUBLED = frozenset("\"'%")  # CSV, SQL, format strings
LONGEST = len("&DiacriticalGrave;")
LEADS = b"%\\&+\"'"  # the first bytes of all escape sequences
NAMES = tuple((name.rstrip(";"), char) for name, char in html5.items() if char.isascii())


@cache
def escapes(char: int) -> frozenset[bytes]:
    """Return the escape sequences of a character, in lower case.

    >>> b"%2f" in escapes(ord("/")), b"&sol;" in escapes(ord("/"))
    (True, True)
    """
    sign, octal, code, hexcode = chr(char), (f"{char:o}",), (str(char),), (f"{char:02x}",)
    ways: list[tuple[tuple[str, ...], ...]] = [
        (("%", "%%", "%u00"), hexcode),  # URLs, format strings, JavaScript's escape()
        (("&#",), ZEROS, code, ("", ";")),
        (("&#x",), ZEROS, hexcode, ("", ";")),
        (("&",), tuple(name for name, named in NAMES if named == sign), ("", ";")),
        (("\\x",), ZEROS[:3], hexcode),
        (("\\u00", "\\u000000"), hexcode),
        (("\\u{", "\\x{"), ZEROS[:5], hexcode, ("}",)),
        (("\\",), ZEROS[:5], hexcode, ("", " ")),  # CSS, LDAP
        (("\\", "\\0"), octal),
    ]
    if sign in punctuation:
        ways.append((("\\",), (sign,)))
    if sign in DOUBLED:
        ways.append(((sign,), (sign,)))
    if sign == " ":
        ways.append((("+",),))
    return frozenset("".join(parts).lower().encode() for way in ways for parts in product(*way))


@cache
def beginnings(char: int) -> frozenset[bytes]:
    """Return all proper prefixes of the escape sequences of a character, including the empty one."""
    return frozenset(escape[:size] for escape in escapes(char) for size in range(len(escape)))
