r"""The escape sequences of each printable ASCII character, as servers write them in URLs, HTML, JSON and source code.

An escape sequence may itself be escaped, as in `%252F`, `&amp;#47;` and `\\u002f`. Encoders leave letters and digits
alone, so only the signs in the sequence are escaped, and only signs of a secret are found in this form.
"""

from collections.abc import Iterator
from functools import cache
from html.entities import html5
from itertools import product
from string import punctuation

ZEROS = tuple("0" * count for count in range(7))  # leading zeros as in `&#0000043;`; no encoder writes more
DOUBLED = frozenset("\"'%")  # CSV, SQL, format strings
LONGEST = len("&DiacriticalGrave;")
LEADS = b"%\\&+\"'=_"  # the first bytes of all escape sequences
# The signs in escape sequences: their first bytes, and those that may follow.
WITHIN = LEADS + b"#;{}"
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
        (("=",), hexcode),  # quoted-printable
        (("=\n", "=\r\n"), (sign,)),  # and its lines
        (("_x00",), hexcode, ("_",)),  # names in XML
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


@cache
def escaped_signs() -> dict[bytes, bytes]:
    """Return the signs of escape sequences by the ways in which encoders escape them, in lower case."""
    found = {}
    for sign in map(chr, WITHIN):
        code = ord(sign)
        names = (f"&{name.lower()};" for name, named in NAMES if named == sign)
        for way in (f"%{code:02x}", f"&#{code};", f"&#x{code:x};", f"\\u{code:04x}", f"\\x{code:02x}", *names):
            found[way.encode()] = sign.encode()
    return {**found, **{b"\\" + sign: sign for sign in (b"\\", b'"', b"'", b"/")}}


LONGEST_TWICE = LONGEST + 3 * (max(map(len, escaped_signs())) - 1)
SIGN_BEGINNINGS = frozenset(way[:size] for way in escaped_signs() for size in range(1, len(way)))
SIGN_SIZES = tuple(sorted({len(way) for way in escaped_signs()}, reverse=True))


def is_sign(char: int) -> bool:
    """Return whether a character is neither a letter nor a digit."""
    return not chr(char).isalnum()


def unescaped(char: int, window: bytes) -> tuple[list[bytes], list[int], bytes]:
    """Undo one escaping of signs in a lower-case text, whose first character must be an escaped sign.

    Return the characters, where each ends, and the rest, which may be the beginning of another escaped sign. Stop when
    the characters cannot become an escape sequence of `char`.

    >>> unescaped(ord("/"), b"%252f+%252f")
    ([b'%', b'2', b'f'], [3, 4, 5], b'+%252f')
    """
    chars, ends, at, begun = list[bytes](), list[int](), 0, b""
    while at < len(window) and begun in beginnings(char):
        here = window[at : at + SIGN_SIZES[0]]
        way = next((here[:size] for size in SIGN_SIZES if here[:size] in escaped_signs()), b"")
        if not way and (not chars or (window[at:] in SIGN_BEGINNINGS and at + len(here) == len(window))):
            break
        at += len(way) or 1
        chars.append(escaped_signs()[way] if way else here[:1])
        ends.append(at)
        begun += chars[-1]
    return chars, ends, window[at:]


def escaped_twice(char: int, window: bytes) -> Iterator[int]:
    """Yield where in a lower-case text an escape sequence of the character ends whose signs are escaped again."""
    chars, ends, rest = unescaped(char, window)
    parts, places = (*chars, rest), (*ends, len(window))  # at the end of the data, the rest may stand for itself
    yield from (end for size, end in enumerate(places, 1) if b"".join(parts[:size]) in escapes(char))


def begins_twice(char: int, window: bytes) -> bool:
    """Return whether a lower-case text may be the beginning of such an escape sequence."""
    chars, _, rest = unescaped(char, window)
    begun = b"".join(chars)
    if begun not in beginnings(char) or (rest and rest not in SIGN_BEGINNINGS):
        return False
    following = {sign for way, sign in escaped_signs().items() if way.startswith(rest)}
    return not rest or any(begun + sign in beginnings(char) or begun + sign in escapes(char) for sign in following)
