"""Limits on the size of a request. A request that exceeds one is denied before any rule is tried.

The cost of a decision grows with the request and with the rules of its host. A client controls only the request, so
the limits count only what the request contains: docs/adr/0027-a-decision-is-bounded-by-its-request.md.
"""

from agent_sandbox.policy.errors import Ambiguous

# Servers reject longer ones with 414.
MAX_TARGET = 32 * 1024  # characters of path and query
MAX_PATH = 8 * 1024  # characters; nginx and Apache accept no longer request line
MAX_SEGMENTS = 100  # of a path; an encoded slash counts as a separator
MAX_PARAMETERS = 500  # of a query, separated by `&` or `;`; PHP and Django accept twice as many
MAX_FIELDS = 200  # of a head; browsers send about 20
MAX_ELEMENTS = 1_000  # of lists in all header fields together, separated by `,` or `;`

# Bytes of a body that is read as GraphQL: enough for the longest text of an issue.
MAX_OPERATION = 256 * 1024
# Bytes of one that is read as MCP: tools take the content of files as arguments.
MAX_MESSAGE = 1024 * 1024


def too_large(most: int) -> str:
    """Return what a body over a limit is called.

    >>> too_large(MAX_MESSAGE)
    'a body of more than 1024 KiB'
    """
    return f"a body of more than {most // 1024} KiB"


def check_target(target: str) -> None:
    """Raise Ambiguous if the path or the query exceeds a limit.

    >>> check_target("/a?b=c")
    """
    # The smallest limit: a shorter target cannot exceed any.
    if len(target) <= MAX_SEGMENTS:
        return
    path, _, query = target.partition("?")
    _check(len(target), MAX_TARGET, "the target longer than {} characters")
    _check(len(path), MAX_PATH, "the path longer than {} characters")
    slashes = path.count("/") + path.count("%2F") + path.count("%2f")
    _check(slashes, MAX_SEGMENTS, "the path has more than {} segments")
    parameters = query.count("&") + query.count(";") + 1
    _check(parameters, MAX_PARAMETERS, "the query has more than {} parameters")


def check_fields(fields: tuple[tuple[str, str], ...]) -> None:
    """Raise Ambiguous if the header fields exceed a limit.

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
