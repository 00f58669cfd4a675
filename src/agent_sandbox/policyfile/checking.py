"""A document against the model of a policy: every problem at once, in the user's words, where it stands."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policy.file.spec import MODELS, RESERVED_KEYS, PolicySpec
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.aliases import known_elsewhere, service_called, service_meant
from agent_sandbox.policyfile.resolved import RESOLVED, advice_for
from agent_sandbox.policyfile.text.document import Document, Place
from agent_sandbox.problems import Problem, UserError

Words = tuple[str, str]
# Where people write in short what has no short form, and a key that belongs elsewhere.
WRITTEN_SO = {"path": "write `path: {prefix: /v1/}`", "tests": "write `- allow: GET https://example.com/`"}
BELONGS = {("domains", "name"): "a service goes under `services`"}
ELSEWHERE = (
    "there is no such service here: name its hosts under `domains`;"
    " for a policy of another product, `agent-sandbox policy import FILE` writes them"
)
# What can be repeated in a hint as it is.
ONE_WORD = re.compile(r"[\w.-]{1,80}", re.ASCII)


def check_document(
    document: Document, *, file: str, services: Collection[str], model: type[PolicySpec] = PolicySpec
) -> PolicySpec:
    """Return the spec, or raise UserError with the problems of the YAML and of the policy together.

    `services` are the names that may stand there; options of theirs are checked where it is a mapping to their layers.
    """
    problems = list(document.problems)
    # A file without a word in it is a policy: one that allows nothing.
    value = {} if document.value is None else document.value
    try:
        spec = model.model_validate(value, context={"services": services})
    except ValidationError as error:
        told = {problem.where for problem in document.problems}
        problems += (problem for problem in _problems(error, document, file) if problem.where not in told)
    else:
        if not problems:
            return spec
    raise UserError(sorted(set(problems), key=_by_place))


def _problems(error: ValidationError, document: Document, file: str) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        # A check of several parts together says which of them is meant.
        location = (*details["loc"], *details.get("ctx", {}).get("at", ()))
        what, hint = WORDS.get(details["type"], _as_pydantic_says)(details)
        place = _place(document, location, is_key=details["type"] == "extra_forbidden")
        yield Problem(where=f"{file}:{place.line}:{place.column}", what=what, hint=hint)


def _place(document: Document, location: Location, *, is_key: bool) -> Place:
    """Return where a part stands; what was written in short has no parts, its own place stands for them."""
    if location[-1:] == ("[key]",):
        location, is_key = location[:-1], True
    if is_key and location in document.keys:
        return document.keys[location]
    while location not in document.places and location:
        location = location[:-1]
    return document.places.get(location, Place(line=1, column=1))


def _by_place(problem: Problem) -> tuple[int, int, str]:
    _, line, column = problem.where.rsplit(":", 2)
    return int(line), int(column), problem.what


def _unknown_key(details: ErrorDetails) -> Words:
    *parents, key = details["loc"]
    if parents[:1] == ["host_services"]:
        del parents[1:2]  # a name of the user's, which may be a word of ours
    named = ["", *(str(name) for name in parents if name in MODELS)]
    above = "/".join(named[-2:]) if "/".join(named[-2:]) in MODELS else named[-1]
    if (above, str(key)) in RESERVED_KEYS:
        return f"`{key}` is not supported yet", "take it out: this version would not do what it says"
    known = list(MODELS[above].model_fields)
    return f"unknown key {safe_repr(str(key))}", BELONGS.get((above, str(key)), "") or nearest(str(key), known)


def _unknown_word(details: ErrorDetails) -> Words:
    context = details.get("ctx", {})
    if context["kind"] == "service" and context["word"] in RESOLVED:
        return f"service {safe_repr(context['word'])} has not been resolved yet", advice_for(context["word"])
    near = nearest_service if context["kind"] == "service" else nearest
    return f"unknown {context['kind']} {safe_repr(context['word'])}", near(context["word"], context["words"])


def _not_one_of(details: ErrorDetails) -> Words:
    value, expected = details["input"], details.get("ctx", {})["expected"]
    # Pydantic lists the words in quotes.
    right = {word.casefold(): word for word in re.findall("'([^']*)'", expected)}
    meant = right.get(value.strip().casefold()) if isinstance(value, str) else None
    return f"{_shown(value)} does not go here", f"did you mean `{meant}`?" if meant else f"write {expected}"


def _unfit(details: ErrorDetails) -> Words:
    context = details.get("ctx", {})
    return context["what"], _to_services(details["input"]) or context.get("hint", "")


def _to_services(value: object) -> str:
    """Return where the name of a service goes that was written for a host, empty for whatever else is wrong."""
    match value:
        case {"host": str() as word, **more} if not more and ONE_WORD.fullmatch(word):
            meant = service_meant(word)
            return f"the service goes under `services`: `- {meant}`" if meant else ""
    return ""


def _not_text(details: ErrorDetails) -> Words:
    value = details["input"]
    if isinstance(value, bool | int):
        return f"{_shown(value)} is no text here", f'quote it if it is meant: "{_shown(value).strip("`")}"'
    return f"{_shown(value)} stands where text is wanted", ""


def _no_list(details: ErrorDetails) -> Words:
    value = details["input"]
    word = str(value) if isinstance(value, str | int) else ""
    return f"{_shown(value)} stands where a list is wanted", f"write [{word}]" if ONE_WORD.fullmatch(word) else ""


def _no_mapping(details: ErrorDetails) -> Words:
    location = details["loc"]
    wanted = "keys and values are" if not location or isinstance(location[-1], str) else "an entry is"
    key = next((part for part in reversed(location) if isinstance(part, str)), "")
    return f"{_shown(details['input'])} stands where {wanted} wanted", WRITTEN_SO.get(key, "")


def _says(what: str, hint: str = "") -> Callable[[ErrorDetails], Words]:
    return lambda _: (what, hint)


def _port(details: ErrorDetails) -> Words:
    return f"{_shown(details['input'])} is no port", "a port is a number from 1 to 65535"


def _as_pydantic_says(details: ErrorDetails) -> Words:
    return details["msg"], ""


def _shown(value: Any) -> str:  # noqa: ANN401 - whatever the file holds
    """Name a value as it stands in the file."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return f"`{value}`"
        case str():
            return safe_repr(value)
        case list():
            return "a list"
        case _:
            return "a mapping"


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the hint that leads from a wrong word to a right one."""
    spelled = {right.casefold(): right for right in known}
    near = get_close_matches(word.casefold(), spelled, n=1)
    return f"did you mean `{spelled[near[0]]}`?" if near else f"known are {', '.join(sorted(known))}"


def nearest_service(word: str, services: Collection[str]) -> str:
    """Return the hint to a service: what people call it counts before how it is spelled."""
    # One that is still to be resolved is a word as good as those that are there.
    known = sorted({*services, *RESOLVED})
    called = service_called(word, known)
    if called is None and known_elsewhere(word):
        return ELSEWHERE
    if called is None:
        return nearest(word, known)
    return f"did you mean `{called}`?" if called in services else f"did you mean `{called}`? {advice_for(called)}"


WORDS: Mapping[str, Callable[[ErrorDetails], Words]] = {
    "extra_forbidden": _unknown_key,
    "word": _unknown_word,
    "unfit": _unfit,
    "literal_error": _not_one_of,
    "string_type": _not_text,
    "tuple_type": _no_list,
    "model_type": _no_mapping,
    "dict_type": _no_mapping,
    "int_type": _port,
    "greater_than_equal": _port,
    "less_than_equal": _port,
    "bool_type": lambda details: (f"{_shown(details['input'])} stands where `true` or `false` is wanted", ""),
    "missing": lambda details: (f"`{details['loc'][-1]}` is missing", ""),
    "string_too_long": _says("a text of more than 1000 characters"),
}
