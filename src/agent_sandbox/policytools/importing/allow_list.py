"""Import allow-lists of `METHOD https://host/path*` lines, where a final `*` matches anything, including slashes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import batched, chain
from operator import itemgetter

from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.insertion import written
from agent_sandbox.policytools.edit.short_rule import read_short_rule, sample
from agent_sandbox.policytools.importing.records import Imported, Note, left_out
from agent_sandbox.policytools.importing.together import TOGETHER
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
    found, problems = Imported(), list[tuple[int, Problem]]()
    wanted: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = COMMENT.sub("", line).split()
        if not words:
            continue
        try:
            wanted += [(number, entry) for entry in _entries(words, f"{file}:{number}", found)]
        except UserError as error:
            problems += [(number, problem) for problem in error.problems]
    doubted = (many for many in batched(wanted, TOGETHER) if not _are_requests([entry for _, entry in many]))
    problems += _invalid(chain.from_iterable(doubted))
    if problems:
        located = ((f"{file}:{number}", one) for number, one in sorted(problems, key=itemgetter(0)))
        raise UserError(dict.fromkeys(Problem(where=where, what=one.what, hint=one.hint) for where, one in located))
    found.allow += dict.fromkeys(entry for _, entry in wanted)
    return found


def _are_requests(entries: Sequence[str]) -> bool:
    """Return whether all are valid entries of `allow`; checking them one by one would take ten times as long."""
    text = "\n".join(("allow:", *(f"- {written(entry)}" for entry in entries), ""))
    try:
        layer = parse_layer(text, name="", file="", shown="", services=())
        rules = expand(layer, {}).rules
        return len([sample(rule.conditions) for rule in rules]) == len(entries)
    except (UserError, Ambiguous):
        return False


def _invalid(entries: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Problem]]:
    """Yield the number of each invalid line, with the problems of its first invalid entry."""
    last = 0
    for number, entry in entries:
        try:
            if number != last:
                read_short_rule(Effect.ALLOW, (entry,))
        except UserError as error:
            last = number
            yield from ((number, problem) for problem in error.problems)


def _entries(words: list[str], where: str, found: Imported) -> list[str]:
    if len(words) != 2 or not words[-1].startswith(("http://", "https://")):
        what = f"not `METHOD URL`: {safe_repr(' '.join(words))}"
        raise UserError([Problem(where=where, what=what, hint=A_LIST if _is_host(words) else HOW)])
    methods, url = words
    asked = EVERY if methods.upper() in ANY_METHOD else methods.upper().split(",")
    if asked is EVERY:
        found.notes.append(Note(where=where, what=f"every method means {', '.join(EVERY)} and HEAD here"))
    if _is_wild_with_a_path(url):
        found.notes.append(left_out(where, WILD.format(safe_repr(url))))
        return []
    addresses = _addresses(url, where, found)
    return [f"{method} {address}" for method in asked for address in addresses]


def _is_wild_with_a_path(url: str) -> bool:
    host, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    return host.startswith(("*", ".")) and path.strip("*") != ""


def _is_host(words: list[str]) -> bool:
    try:
        parse_host_pattern(" ".join(words))
    except InvalidValue:
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
