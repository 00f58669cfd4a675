r"""The canonical form of a path, and the ways in which servers may read it.

Canonical: percent-encoded unreserved characters are decoded, the hex digits of the others are in upper case. A path
that a server could resolve to another one (`..`, `%2e`, `//`, `\`) is ambiguous.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote, unquote

from msgspec import Struct

from agent_sandbox.policy.errors import Ambiguous

# The fast check for nearly every path: nothing in it can be read in two ways.
START, REST = r"[A-Za-z0-9_~!$&'()*+,=:@-]", r"[A-Za-z0-9_~!$&'()*+,=:@.-]*+"
PLAIN = re.compile(rf"(?:/{START}{REST})++/?|/")
ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
BEYOND_ASCII = re.compile(r"(?:%[89A-F][0-9A-F])++")
PARAMETERS = re.compile(r";[^/]*")
# An encoded percent sign before two digits, however often it was encoded.
AGAIN = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
STREAM = re.compile(r":[^/:]*:\$[^/]*")
# It begins only where such a run begins: else a long run would be tried from each of its characters.
SEGMENT_END = re.compile(r"(?<![. ])[. ]++(?=/|\Z)")
AFTER_PATH = re.compile(r"(?:[?#]|%00).*")
PRINTABLE = {f"%{byte:02X}": chr(byte) for byte in range(0x20, 0x7F) if chr(byte) not in "/%"}
# Cache size: a path has a few readings, which each rule of its host needs again. `served_as` returns 128 at most.
FEW, MANY = 16, 256

DOUBTS_AS_WRITTEN = (
    (re.compile(r"[^\x21-\x7e]"), "a character that is not allowed in a URL"),
    (re.compile(r"#"), "a fragment"),
    (re.compile(r"\\|%5[Cc]"), "a backslash, which some servers read as a slash"),
    (re.compile(r"%(?![0-9A-Fa-f]{2})"), "a `%` without two hex digits"),
    (re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])"), "an encoded control character"),
    (re.compile(r"%2[Ee]"), "an encoded dot"),
    (re.compile(r"%(?:25)+(?:2[EeFf]|5[Cc])"), "a doubly encoded dot or slash"),
    (re.compile(r"%(?:[Cc][01]|[Ff][5-9A-Fa-f])"), "a byte that never occurs in UTF-8"),
    (re.compile(r"%(?:[Ee]0%[89]|[Ff]0%8)"), "a character in an overlong UTF-8 encoding"),
)
ENCODED_SLASH = (re.compile(r"%2[Ff]"), "an encoded slash, which an entry allows with `encoded_slash: true`")
DOUBTS_AS_READ = (
    (re.compile(r"//"), "an empty segment (`//`)"),
    (re.compile(r"/\.\.?(?:[/;]|\Z)"), "a dot segment"),
    (re.compile(r"/\.* [. ]*(?:[/;]|\Z)"), "a segment of only spaces and dots"),
    (re.compile(r"[;=]\.\.?(?:[/;]|\Z)"), "a `;` parameter made of dots"),
    (re.compile(r"/;"), "a segment with only `;` parameters"),
)


def canonical_path(raw: str, *, encoded_slash: bool = False) -> str:
    """Return the canonical form of a path, or raise Ambiguous.

    >>> canonical_path("/%61pi/caf%c3%a9")
    '/api/caf%C3%A9'

    `encoded_slash` permits `%2F`, which npm registries need; `readings` then returns both meanings.
    """
    if PLAIN.fullmatch(raw):
        return raw
    if not raw.startswith("/"):
        raise Ambiguous("the path does not start with `/`")
    canonical = ENCODED.sub(_decode_unreserved, raw)
    # Both: decoding can create an ambiguity, as `%25%32%65` becomes `%252e`.
    for written in (raw, canonical):
        _refuse(written, DOUBTS_AS_WRITTEN if encoded_slash else (*DOUBTS_AS_WRITTEN, ENCODED_SLASH))
    for reading in (canonical, _decoded(canonical).replace("%2F", "/")):
        _refuse(reading, DOUBTS_AS_READ)
    return canonical


def readings(path: str) -> tuple[str, ...]:
    """Return every way in which a server may read a canonical path; most paths have one.

    Rules are matched against these: reserved characters decoded, `%2F` as it is and as a slash, with and without `;`
    parameters. An allow must match all of them, a deny any one, or any that `served_as` adds.

    >>> readings("/%40scope%2Fname")
    ('/@scope%2Fname', '/@scope/name')
    """
    if "%" not in path and ";" not in path:
        return (path,)
    return _several(path)


@lru_cache(maxsize=FEW)
def _several(path: str) -> tuple[str, ...]:
    literal = _decoded(path)
    slashed = literal.replace("%2F", "/")
    every = (literal, slashed, PARAMETERS.sub("", literal), PARAMETERS.sub("", slashed))
    return tuple(dict.fromkeys(every))


@lru_cache(maxsize=MANY)
def segments_of(reading: str) -> tuple[str, ...]:
    """Return the segments between the slashes.

    >>> segments_of("/a/b")
    ('', 'a', 'b')
    """
    return tuple(reading.split("/"))


@lru_cache(maxsize=MANY)
def in_lower_case(reading: str) -> str:
    """Return a reading in lower case, including percent-encoded letters, as a case-insensitive server reads it.

    >>> in_lower_case("/%C3%89t%C3%89")
    '/%c3%a9t%c3%a9'
    """
    return (BEYOND_ASCII.sub(_folded, reading) if "%" in reading else reading).lower()


def _folded(match: re.Match[str]) -> str:
    # Bytes that are not UTF-8 stay as they are.
    return quote(unquote(match[0], errors="surrogateescape").casefold(), errors="surrogateescape")


def _refuse(text: str, doubts: tuple[tuple[re.Pattern[str], str], ...]) -> None:
    for pattern, words in doubts:
        if pattern.search(text):
            raise Ambiguous(f"the path contains {words}")


def _decode_unreserved(match: re.Match[str]) -> str:
    written = match[0].upper()
    character = PRINTABLE.get(written, "")
    return character if character in UNRESERVED else written


def _decoded(path: str) -> str:
    return ENCODED.sub(_decode_printable, path)


def _decode_printable(match: re.Match[str]) -> str:
    written = match[0].upper()
    return PRINTABLE.get(written, written)


class Behaviour(Struct, frozen=True):
    """What some servers do with a path before they look it up; `read` returns what they then see."""

    name: str
    read: Callable[[str], str]


# The patterns of denies are in lower case.
IGNORE_CASE = Behaviour("ignore case", in_lower_case)
# In the order in which a server would do several of them. Denies and questions cover what any combination sees. Other
# paths that servers read in two ways are refused, as above.
BEHAVIOURS = (
    Behaviour("decode it again", lambda path: _decoded(AGAIN.sub("%", path)) if "%25" in path else path),
    IGNORE_CASE,
    Behaviour("end it at an encoded `?`, `#` or NUL", lambda path: AFTER_PATH.sub("", path) or "/"),
    Behaviour("drop `;` parameters", lambda path: PARAMETERS.sub("", path)),
    Behaviour("drop a stream name (`::$DATA`)", lambda path: STREAM.sub("", path)),
    Behaviour("drop dots and spaces at the end of a segment", lambda path: SEGMENT_END.sub("", path)),
    Behaviour("ignore a slash at the end", lambda path: path.rstrip("/") or "/"),
)


@lru_cache(maxsize=FEW)
def served_as(ways: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the `readings` of a path become at servers with some of the `BEHAVIOURS`, in lower case, for a deny.

    >>> served_as(("/A./",))
    ('/a./', '/a/', '/a.', '/a')
    """
    every = dict.fromkeys(ways)
    for behaviour in BEHAVIOURS:
        read = map(behaviour.read, every)
        every = dict.fromkeys(read if behaviour is IGNORE_CASE else [*every, *read])
    return tuple(every)
