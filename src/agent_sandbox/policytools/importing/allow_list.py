"""Import allow-lists of `METHOD https://host/path*` lines, where a final `*` matches anything, including slashes."""

import re
from collections.abc import Iterator

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.importing.result import Imported, Note, left_out
from agent_sandbox.problems import Problem, UserError

COMMENT = re.compile(r"(?:^|\s)#.*$")
ANY_METHOD = frozenset({"*", "ANY"})
# GET implies HEAD.
EVERY = tuple(sorted(STANDARD - {"HEAD"}))
HOW = "write `GET https://example.com/path*`"
A_LIST = "a host list needs no import: put it next to the policy file, and name it there with `domains_file`"
INSIDE = "a `*` inside a path matches part of one segment here; `**` would match several"
WILD = "{} has a path with a wildcard host, which an allow-list never allows; write a line for each host"


def import_allowlist(text: str, *, file: str) -> Imported:
    """Return the lines as entries of `allow`; raise UserError with every invalid line."""
    found, problems = Imported(), []
    entries: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = COMMENT.sub("", line).split()
        if not words:
            continue
        where = f"{file}:{number}"
        try:
            entries |= dict.fromkeys(_entries(words, where, found))
        except UserError as error:
            problems += [Problem(where=where, what=problem.what, hint=problem.hint) for problem in error.problems]
    if problems:
        raise UserError(dict.fromkeys(problems))
    found.allow += entries
    return found


def _entries(words: list[str], where: str, found: Imported) -> Iterator[str]:
    if len(words) != 2 or not words[-1].startswith(("http://", "https://")):
        what = f"not `METHOD URL`: {safe_repr(' '.join(words))}"
        raise UserError([Problem(where=where, what=what, hint=A_LIST if _is_host(words) else HOW)])
    methods, url = words
    asked = EVERY if methods.upper() in ANY_METHOD else methods.upper().split(",")
    if asked is EVERY:
        found.notes.append(Note(where=where, what=f"every method means {', '.join(EVERY)} and HEAD here"))
    if _is_wild_with_a_path(url):
        found.notes.append(left_out(where, WILD.format(safe_repr(url))))
        return
    addresses = _addresses(url, where, found)
    for method in asked:
        for address in addresses:
            yield read_short_rule(Effect.ALLOW, (method, address)).text


def _is_wild_with_a_path(url: str) -> bool:
    host, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    return host.startswith(("*", ".")) and path.strip("*") != ""


def _is_host(words: list[str]) -> bool:
    try:
        parse_host_pattern(" ".join(words))
    except Unfit:
        return False
    return True


def _addresses(url: str, where: str, found: Imported) -> list[str]:
    """Return the URLs for our format: a final star is replaced by what it matched."""
    address, mark, query = url.partition("?")
    if mark and query in {"*", "**"}:
        mark = query = ""
    elif "*" in query:
        what, hint = "a `*` in a query", "name the parameters, or leave the query out to allow any"
        raise UserError([Problem(where=where, what=what, hint=hint)])
    scheme, separator, rest = address.partition("://")
    host, _, path = rest.partition("/")
    stem = path.rstrip("*")
    if "*" in stem:
        found.notes.append(Note(where=where, what=INSIDE))
    further = ["*", "*/**"] if stem.rpartition("/")[2] else ["**"]
    ends = [""] if stem == path else further
    return [f"{scheme}{separator}{host}/{stem}{end}{mark}{query}" for end in ends]
