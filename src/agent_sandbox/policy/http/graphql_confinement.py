"""GraphQL operations that stay within named repositories: which fields they may select, at every level.

A field leads from a repository to its owner, and from there to every other repository. So a list of top-level fields is
not enough: each type lists its fields, and where each of them leads.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_sandbox.policy.http.graphql_operation import HARMLESS, Confinement, Operation, Selection

# The prefix of a fragment's name among the fields of a selection.
ON = "on "
# Qualifiers of a search that narrow it. Others could widen it to other repositories.
NARROWING = (
    "archived|assignee|author|base|closed|commenter|comments|created|draft|head|in|involves|is|label|language|linked|"
    "mentions|merged|milestone|no|reason|review|review-requested|reviewed-by|sort|state|status|"
    "team-review-requested|type|updated|user-review-requested"
)
# Printable ASCII without `"`, `(`, `)`, `:` and backslash.
WORD = r"[!#-'*-9;-\[\]-~]+"
SEARCHED = re.compile(rf'(?:-?(?:{NARROWING}):(?:{WORD}|"[ !#-\[\]-~]*")|repo:(?P<repository>{WORD})|{WORD})(?: +|\Z)')
COMBINING = re.compile(r"(?:\A| )(?:and|or|not)(?: |\Z)", re.IGNORECASE)
LONGEST_SEARCH = 1_000


def beyond(confined: Confinement, operation: Operation) -> str:
    """Return the first field of an operation that leads out of the repositories, or an empty text."""
    if operation.selections is None:
        return "an operation with directives, or nested too deeply"
    types = {name: dict(fields) for name, fields in confined.types}
    waiting = [(operation.kind, operation.kind, operation.selections)]
    while waiting:
        path, kind, selections = waiting.pop()
        for one in selections:
            if one.name in HARMLESS and one.below is None:
                continue
            leads = kind if one.name == f"{ON}{kind}" else types[kind].get(one.name)
            place = path if one.name.startswith(ON) else f"{path}.{one.name}"
            if leads is None or bool(leads) != (one.below is not None):
                return place if place != path else f"{path} {one.name}"
            if path == operation.kind and (why := _elsewhere(confined, one, operation.known)):
                return why
            if one.below is not None:
                waiting.append((place, leads, one.below))
    return ""


def ids_in(confined: Confinement, operation: Operation, data: object) -> dict[str, str]:
    """Return the ids of objects in the answer to an operation within the repositories, with their repositories.

    Servers let fragments on two types give one name in the answer to different fields: an `id` may be a title. So an
    operation that does is not learned from.
    """
    types = {name: dict(fields) for name, fields in confined.types}
    found: dict[str, str] = {}
    places = dict(_places(operation.selections or ()))
    if any(places[place] != name for place, name in _places(operation.selections or ())):
        return found

    def visit(kind: str, selections: tuple[Selection, ...], value: Any, repository: str) -> None:  # noqa: ANN401 - JSON
        for each in value if isinstance(value, list) else [value]:
            for one in selections if isinstance(each, dict) else ():
                is_fragment = one.name.startswith(ON)
                below = each if is_fragment else each.get(one.alias or one.name)
                place = repository or _repository(confined, one, operation.known)
                leads = kind if one.name == f"{ON}{kind}" else types[kind].get(one.name)
                if one.below is not None and leads:
                    visit(leads, one.below, below, place)
                elif one.name == "id" and kind in confined.ids_of and isinstance(below, str) and place:
                    found[below] = place

    visit(operation.kind, operation.selections or (), data, "")
    return found


def _places(selections: tuple[Selection, ...], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each place in the answer, and the field that is there."""
    for one in selections:
        is_fragment = one.name.startswith(ON)
        place = above if is_fragment else (*above, one.alias or one.name)
        if not is_fragment:
            yield place, one.name
        yield from _places(one.below or (), place)


def _repository(confined: Confinement, one: Selection, known: Mapping[str, str]) -> str:
    """Return the repository that a top-level field is about, an empty text if there is not exactly one."""
    given, name = dict(one.arguments), one.name
    if name in (scoped := dict(confined.scoped)):
        texts = [given.get(argument) or "/" for argument in scoped[name]]
        return "" if any("/" in text or "*" in text for text in texts) else "/".join(texts)
    if name in (searches := dict(confined.searches)):
        return repository_searched(given.get(searches[name][0]) or "")
    if name in (ids := dict(confined.ids)):
        return known.get(given.get(ids[name][0]) or "", "")
    return ""


def _elsewhere(confined: Confinement, one: Selection, known: Mapping[str, str]) -> str:
    """Describe what a top-level field asks for outside the repositories; empty for nothing."""
    taken = {**dict(confined.scoped), **dict(confined.ids)}
    if one.name not in taken and one.name not in dict(confined.searches):
        return ""
    given = dict(one.arguments)
    more = given.keys() - set(taken.get(one.name, given))
    if not more and confined.names(_repository(confined, one, known)):
        return ""
    if one.name in dict(confined.scoped):
        return f"{one.name} {'/'.join(given.get(name) or '?' for name in taken[one.name])}"
    if one.name in dict(confined.ids):
        return f"{one.name} with {', '.join(sorted(more))}" if more else f"{one.name} with an unknown id"
    return f"{one.name} not limited to one named repository"


def repository_searched(text: str) -> str:
    """Return the only repository that a search can be about, an empty text if there could be others."""
    if len(text) > LONGEST_SEARCH or COMBINING.search(text):
        return ""
    named, at = [], 0
    while at < len(text):
        word = SEARCHED.match(text, at)
        if word is None:
            return ""
        named += [word["repository"]] if word["repository"] else []
        at = word.end()
    return named[0] if len(named) == 1 and "*" not in named[0] else ""
