"""Validate a document against a model, and report every problem with its place and a hint."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError, PydanticKnownError

from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.aliases import known_elsewhere, service_called, service_meant
from agent_sandbox.policyfile.resolved import ONLY_PROJECT, RESOLVED
from agent_sandbox.policyfile.text.document import Document, Place
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.layer import Location

TEXT = WithJsonSchema({"type": "string"})
Words = tuple[str, str]
type Describe = Callable[[ErrorDetails], Words]
# Hints for keys without a short form.
LONG_FORMS = {
    "path": "write `path: {prefix: /v1/}`",
    "tests": "write `- allow: GET https://example.com/`",
    "mounts": "write `- {path: ../shared-lib}`",
}
# Values that a setting no longer takes, by place.
REMOVED: "Mapping[Location, Words]" = {
    ("settings", "http1", "mitmproxy"): (
        "`http1: mitmproxy` is no longer supported: mitmproxy serves only HTTP/2",
        "remove it, or write the default, `http1: auto`",
    ),
}
EVERY_METHOD = frozenset({"*", "all", "any"})
NO_METHODS = "remove `methods`: without it, a rule matches every method; without any condition, remove the rule too"
ELSEWHERE = (
    "there is no such service: name its hosts under `domains`;"
    " for a policy of another product, use `agent-sandbox policy import FILE`"
)
MAX_PROBLEMS = 100
# A word that a hint can repeat without quoting.
ONE_WORD = re.compile(r"[\w.-]{1,80}", re.ASCII)


def validated[M: BaseModel](
    document: Document,
    *,
    file: str,
    model: type[M],
    context: Mapping[str, object],
    words: Mapping[str, Describe],
) -> M:
    """Return the document as a model, or raise UserError with every problem; `words` describes pydantic's errors."""
    problems = list(document.problems)
    # An empty file has the default of each key.
    value = {} if document.value is None else document.value
    try:
        spec = model.model_validate(value, context=dict(context))
    except ValidationError as error:
        reported = {problem.where for problem in document.problems}
        found = _problems(error, document, file, words)
        problems += (problem for problem in found if problem.where not in reported)
    else:
        if not problems:
            return spec
    raise bounded(UserError(sorted(set(problems), key=_by_place)))


def invalid(what: str, hint: str = "", at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """Return the error for a value that does not fit."""
    return PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": at})


def require_text(value: object) -> str:
    """Return a value that is text; raise an error for any other."""
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return value


def matching(pattern: re.Pattern[str], what: str, hint: str) -> PlainValidator:
    """Return a validator of text that matches the whole pattern."""

    def checked(value: object) -> str:
        if not pattern.fullmatch(require_text(value)):
            raise invalid(f"not {what}: {safe_repr(str(value))}", hint)
        return str(value)

    return PlainValidator(checked)


def bounded(error: UserError) -> UserError:
    """Return the error with at most `MAX_PROBLEMS` problems, and how many more there are."""
    hidden = len(error.problems) - MAX_PROBLEMS
    if hidden <= 0:
        return error
    more = Problem(where="", what=f"and {hidden} more problems")
    return UserError([*error.problems[:MAX_PROBLEMS], more])


def _problems(
    error: ValidationError, document: Document, file: str, words: Mapping[str, Describe]
) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        # A check across several keys names the one at fault in `at`.
        location = (*details["loc"], *details.get("ctx", {}).get("at", ()))
        what, hint = words.get(details["type"], _as_pydantic_says)(details)
        if details["type"] == "extra_forbidden":
            location = (*location, "[key]")
        yield Problem(where=where_is(document, file, location), what=what, hint=hint)


def where_is(document: Document, file: str, location: "Location") -> str:
    """Return the file, the line and the column of a part, or of its key if the location ends with `[key]`."""
    place = place_of(document, location)
    return f"{file}:{place.line}:{place.column}"


def place_of(document: Document, location: "Location") -> Place:
    """Return the place of a part; a part of a short form has the place of the whole."""
    if location[-1:] == ("[key]",):
        location = location[:-1]
        if location in document.keys:
            return document.keys[location]
    while location not in document.places and location:
        location = location[:-1]
    return document.places.get(location, Place(line=1, column=1))


def _by_place(problem: Problem) -> tuple[int, int, str]:
    _, line, column = problem.where.rsplit(":", 2)
    return int(line), int(column), problem.what


def section_of(parents: Sequence[str | int], models: Mapping[str, type[BaseModel]]) -> str:
    """Return the name in `models` of the part with these keys above."""
    named = ["", *(str(name) for name in parents if name in models)]
    return "/".join(named[-2:]) if "/".join(named[-2:]) in models else named[-1]


def unknown_key(models: Mapping[str, type[BaseModel]]) -> Describe:
    """Return what describes an unknown key of these models, which are listed by the key above."""

    def words(details: ErrorDetails) -> Words:
        *parents, key = details["loc"]
        fields = models[section_of(parents, models)].model_fields
        known = [field.alias or name for name, field in fields.items()]
        return f"unknown key {safe_repr(str(key))}", nearest(str(key), known)

    return words


def _unknown_word(details: ErrorDetails) -> Words:
    context = details.get("ctx", {})
    if context["kind"] == "service" and service_called(context["word"], RESOLVED):
        return f"service {safe_repr(context['word'])}: only a project's policy can name it", ONLY_PROJECT
    if context["kind"] == "method" and context["word"].casefold() in EVERY_METHOD:
        short = details["loc"][:1] == ("allow",)
        return f"unknown method {safe_repr(context['word'])}", "name them: `GET,POST`" if short else NO_METHODS
    near = nearest_service if context["kind"] == "service" else nearest
    return f"unknown {context['kind']} {safe_repr(context['word'])}", near(context["word"], context["words"])


def _not_one_of(details: ErrorDetails) -> Words:
    value, expected = details["input"], details.get("ctx", {})["expected"]
    if isinstance(value, str) and (removed := REMOVED.get((*details["loc"], value))):
        return removed
    # Pydantic lists the words in quotes.
    right = {word.casefold(): word for word in re.findall("'([^']*)'", expected)}
    meant = right.get(value.strip().casefold()) if isinstance(value, str) else None
    return f"invalid value {shown(value)}", f"did you mean `{meant}`?" if meant else f"write {expected}"


def _invalid(details: ErrorDetails) -> Words:
    context = details.get("ctx", {})
    return context["what"], _to_services(details["input"]) or context.get("hint", "")


def _to_services(value: object) -> str:
    """Return the hint for a service that was written as a host, empty for other mistakes."""
    match value:
        case {"host": str() as word, **more} if not more and ONE_WORD.fullmatch(word):
            meant = service_meant(word)
            return f"put the service under `services`: `- {meant}`" if meant else ""
    return ""


def _not_text(details: ErrorDetails) -> Words:
    value = details["input"]
    if isinstance(value, bool | int):
        return f"text expected, not {shown(value)}", f'if you mean the text, quote it: "{shown(value).strip("`")}"'
    return f"text expected, not {shown(value)}", ""


def _not_list(details: ErrorDetails) -> Words:
    value = details["input"]
    word = str(value) if isinstance(value, str | int) else ""
    if details["loc"][-1:] == ("methods",) and word.casefold() in EVERY_METHOD:
        return f"list expected, not {shown(value)}", NO_METHODS
    if details["loc"] == ("services",) and (hint := _named(value)):
        return f"list expected, not {shown(value)}", hint
    return f"list expected, not {shown(value)}", f"write [{word}]" if ONE_WORD.fullmatch(word) else ""


def _not_mapping(details: ErrorDetails) -> Words:
    location = details["loc"]
    expected = "keys and values" if not location or isinstance(location[-1], str) else "entry"
    key = next((part for part in reversed(location) if isinstance(part, str)), "")
    return f"{expected} expected, not {shown(details['input'])}", LONG_FORMS.get(key, "")


def _missing(details: ErrorDetails) -> Words:
    return f"`{details['loc'][-1]}` is missing", _named(details["input"]) if details["loc"][:1] == ("services",) else ""


def _named(value: object) -> str:
    """Return the hint for `github: {...}` in place of `- name: github`; empty if the first key is not a service."""
    word = str(next(iter(value), "")) if isinstance(value, dict) else ""
    meant = service_meant(word)
    return f"write `- name: {meant}`, and its options below, beside `name`" if meant else ""


def _says(what: str, hint: str = "") -> Describe:
    return lambda _: (what, hint)


def _port(details: ErrorDetails) -> Words:
    return f"not a port: {shown(details['input'])}", "a port is a number from 1 to 65535"


def _as_pydantic_says(details: ErrorDetails) -> Words:
    return details["msg"], ""


def shown(value: Any) -> str:  # noqa: ANN401 - whatever the file holds
    """Return a value as a message shows it."""
    match value:
        case None:
            return "an empty value"
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
    """Return a hint with the most similar known word, or with all known words."""
    spelled = {right.casefold(): right for right in known}
    near = get_close_matches(word.casefold(), spelled, n=1)
    return f"did you mean `{spelled[near[0]]}`?" if near else f"known: {', '.join(sorted(known))}"


def nearest_service(word: str, services: Collection[str]) -> str:
    """Return a hint for an unknown service: by alias first, then by spelling."""
    called = service_called(word, services)
    if called is None and known_elsewhere(word):
        return ELSEWHERE
    return f"did you mean `{called}`?" if called else nearest(word, sorted(services))


WORDS: Mapping[str, Describe] = {
    "word": _unknown_word,
    "invalid_value": _invalid,
    "literal_error": _not_one_of,
    "string_type": _not_text,
    "tuple_type": _not_list,
    "model_type": _not_mapping,
    "dict_type": _not_mapping,
    "int_type": _port,
    "greater_than_equal": _port,
    "less_than_equal": _port,
    "bool_type": lambda details: (f"`true` or `false` expected, not {shown(details['input'])}", ""),
    "missing": _missing,
    "string_too_long": _says("text longer than 1000 characters"),
}
