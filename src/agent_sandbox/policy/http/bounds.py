"""The most that one request may hold. More is refused before any rule is asked.

The cost of a decision grows with the request and with the rules of its host. A client controls only the request, so
these limits count what the request holds and nothing else: docs/adr/0027-a-decision-is-bounded-by-its-request.md.
"""

from agent_sandbox.policy.errors import Ambiguous

# Servers refuse longer ones with 414; so do we, before any work is spent on them.
MAX_TARGET = 32 * 1024  # characters of path and query
MAX_PATH = 8 * 1024  # characters; nginx and Apache take no longer request line
MAX_SEGMENTS = 100  # of a path; an encoded slash may part them, too
MAX_PARAMETERS = 500  # of a query, parted by `&` or `;`; PHP and Django take twice as many
MAX_FIELDS = 200  # of a head; browsers send about 20
MAX_ELEMENTS = 1_000  # of lists in all header fields together, parted by `,` or `;`


def check_target(target: str) -> None:
    """Raise Ambiguous where path or query hold more than a request may.

    >>> check_target("/a?b=c")
    """
    # The least of the limits: nothing shorter can be over any.
    if len(target) <= MAX_SEGMENTS:
        return
    path, _, query = target.partition("?")
    _check(len(target), MAX_TARGET, "the target is longer than {} characters")
    _check(len(path), MAX_PATH, "the path is longer than {} characters")
    slashes = path.count("/") + path.count("%2F") + path.count("%2f")
    _check(slashes, MAX_SEGMENTS, "the path has more than {} segments")
    parameters = query.count("&") + query.count(";") + 1
    _check(parameters, MAX_PARAMETERS, "the query has more than {} parameters")


def check_fields(fields: tuple[tuple[str, str], ...]) -> None:
    """Raise Ambiguous where the header fields hold more than a request may.

    >>> check_fields((("accept", "text/html, */*"),))
    """
    _check(len(fields), MAX_FIELDS, "the request has more than {} header fields")
    values = "".join([value for _, value in fields])
    if len(values) > MAX_ELEMENTS:
        elements = values.count(",") + values.count(";") + len(fields)
        _check(elements, MAX_ELEMENTS, "the header fields list more than {} elements")


def _check(found: int, most: int, words: str) -> None:
    if found > most:
        raise Ambiguous(words.format(most))
