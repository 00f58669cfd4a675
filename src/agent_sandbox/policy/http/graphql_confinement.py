"""GraphQL operations that stay within named repositories: which fields they may select, at every level.

A field leads from a repository to its owner, and from there to every other repository. So a list of top-level fields is
not enough: each type lists its fields, and where each of them leads.
"""

import re

from agent_sandbox.policy.http.graphql_operation import HARMLESS, Confinement, Selection

# How fragments on a type are named among the fields that lead to them.
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


def beyond(confined: Confinement, kind: str, selections: tuple[Selection, ...] | None) -> str:
    """Return the first thing in an operation that is not within the repositories, or an empty text."""
    if selections is None:
        return "an operation with directives, or nested too deeply"
    types = {name: dict(fields) for name, fields in confined.types}
    waiting = [(kind, kind, selections)]
    while waiting:
        path, kind, selections = waiting.pop()
        for one in selections:
            if one.name in HARMLESS and one.below is None:
                continue
            leads = kind if one.name == f"{ON}{kind}" else types[kind].get(one.name)
            place = path if one.name.startswith(ON) else f"{path}.{one.name}"
            if leads is None or bool(leads) != (one.below is not None):
                return place if place != path else f"{path} {one.name}"
            if path in {"query", "mutation"} and (why := _elsewhere(confined, one)):
                return why
            if one.below is not None:
                waiting.append((place, leads, one.below))
    return ""


def _elsewhere(confined: Confinement, one: Selection) -> str:
    """Return what a top-level field asks for in another repository, or an empty text."""
    given = dict(one.arguments)
    if one.name in dict(confined.scoped):
        asked = [given.pop(name, None) for name in dict(confined.scoped)[one.name]]
        texts = [text for text in asked if text is not None and "/" not in text and "*" not in text]
        is_named = len(texts) == len(asked) and not given and confined.names("/".join(texts))
        return "" if is_named else f"{one.name} {'/'.join(text or '?' for text in asked)}"
    if one.name in dict(confined.searches):
        text = given.get(dict(confined.searches)[one.name][0])
        return (
            "" if text is not None and is_search_within(confined, text) else f"{one.name} beyond one named repository"
        )
    return ""


def is_search_within(confined: Confinement, text: str) -> bool:
    """Return whether a search names exactly one repository, ours, and has no qualifier that could add others."""
    if len(text) > LONGEST_SEARCH or COMBINING.search(text):
        return False
    named, at = [], 0
    while at < len(text):
        word = SEARCHED.match(text, at)
        if word is None:
            return False
        named += [word["repository"]] if word["repository"] else []
        at = word.end()
    return len(named) == 1 and "*" not in named[0] and confined.names(named[0])
