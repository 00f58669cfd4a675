"""Parse the text of a policy file or of a service into a layer."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache

from pydantic_core import ErrorDetails

from agent_sandbox.policy.compiler.layer import Layer, Location
from agent_sandbox.policy.file.spec import MODELS, RESERVED_KEYS, PolicySpec, ServiceFileSpec
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.aliases import service_called, service_meant
from agent_sandbox.policyfile.parse.checking import (
    WORDS,
    Describe,
    Words,
    bounded,
    nearest,
    section_of,
    validated,
    where_is,
)
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import Problem, UserError

# Hints for keys that belong elsewhere.
BELONGS = {
    ("domains", "name"): "services go under `services`",
    ("settings", "engine"): "`http1` chooses which clients get HTTP/1.1",
    ("rules", "paths"): "a rule has one path: `path: {glob: /v1/**}`",
}
# Conditions of a rule, as people write them directly into an entry.
CONDITIONS = {
    **dict.fromkeys(("method", "methods"), "methods: [GET]"),
    **dict.fromkeys(("path", "paths"), "path: {glob: /v1/**}"),
    **dict.fromkeys(("scheme", "schemes"), "schemes: [https]"),
    "query": "query: {exact: {a: b}}",
    "headers": "headers: {accept: text/html}",
}
REPEATED = {
    "services": ("service `{}` is named", "keep one entry with the options of both"),
    "domains": ("`{}` replaces lower layers", "merge the two entries into one"),
}


def parse_layer(  # noqa: PLR0913 - the parts of a layer
    text: str, *, name: str, file: str, shown: str, services: Collection[str], tighten: bool = False
) -> Layer:
    """Return the layer, or raise UserError with every problem in the text."""
    document = parse_document(text, file=file)
    spec = check_document(document, file=file, services=services)
    layer = Layer(name=name, file=shown, spec=spec, lines=document.lines, tighten=tighten)
    problems = [*_repeated(document, spec, file=file), *(_replacing(document, file) if layer.restricts else ())]
    if problems:
        raise bounded(UserError(problems))
    return layer


@lru_cache(maxsize=128)  # a reload needs the same few services again
def parse_service(text: str, *, name: str, file: str, shown: str) -> Layer:
    """Return the layer of the service, or raise UserError with every problem in the text."""
    document = parse_document(text, file=file)
    spec = check_document(document, file=file, services=(), model=ServiceFileSpec)
    return Layer(name=f"service {name}", file=shown, spec=spec, lines=document.lines)


def _replacing(document: Document, file: str) -> Iterator[Problem]:
    what, hint = "a restricting layer cannot replace anything", "remove `merge_mode`"
    for location in document.keys:
        if location[-1] == "merge_mode":
            yield Problem(where=where_is(document, file, (*location, "[key]")), what=what, hint=hint)


def _repeated(document: Document, spec: PolicySpec, *, file: str) -> Iterator[Problem]:
    """Yield a problem for each duplicate, with the place of the first one."""
    services = ((("services", number), service.name) for number, service in enumerate(spec.services))
    replacing = ((("domains", number), entry.host) for number, entry in enumerate(spec.domains) if entry.merge_mode)
    for location, first, name in (*_twice(services), *_twice(replacing)):
        what, hint = REPEATED[str(location[0])]
        also = f"{what.format(name)} at {where_is(document, file, first)}, too"
        yield Problem(where=where_is(document, file, location), what=also, hint=hint)


def _twice[T: Hashable](placed: Iterable[tuple[Location, T]]) -> Iterator[tuple[Location, Location, T]]:
    first: dict[T, Location] = {}
    for location, value in placed:
        before = first.setdefault(value, location)
        if before is not location:
            yield location, before, value


def check_document(
    document: Document, *, file: str, services: Collection[str], model: type[PolicySpec] = PolicySpec
) -> PolicySpec:
    """Return the spec, or raise UserError with every problem of the YAML and of the policy.

    `services` are the known names; if it is a mapping to layers, the options of services are checked as well.
    """
    context = {"services": services, "called": service_called}
    return validated(document, file=file, model=model, context=context, words=POLICY_WORDS)


def _unknown_key(details: ErrorDetails) -> Words:
    *parents, key = details["loc"]
    if parents[:1] == ["host_services"]:
        del parents[1:2]  # a name that the user chose, which may equal one of our keys
    above = section_of(parents, MODELS)
    if (above, str(key)) in RESERVED_KEYS:
        return f"`{key}` is not supported yet", "remove it: this version would ignore it"
    hint = BELONGS.get((above, str(key)), "") or _belongs(above, str(key))
    return f"unknown key {safe_repr(str(key))}", hint or nearest(str(key), list(MODELS[above].model_fields))


def _belongs(above: str, key: str) -> str:
    """Return the hint for a condition outside a rule, and for a service outside `services`; empty for other keys."""
    if above in {"domains", "deny"} and key in CONDITIONS:
        return f"conditions go into rules: `rules: [{{{CONDITIONS[key]}}}]`"
    meant = "" if above else service_meant(key)
    return f"put the service under `services`: `- name: {meant}`" if meant else ""


POLICY_WORDS: Mapping[str, Describe] = {**WORDS, "extra_forbidden": _unknown_key}
