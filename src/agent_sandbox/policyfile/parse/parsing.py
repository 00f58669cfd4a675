"""Parse the text of a policy file or of a service into a layer."""

from collections.abc import Collection, Hashable, Iterable, Iterator
from functools import lru_cache

from agent_sandbox.policy.compiler.layer import Layer, Location
from agent_sandbox.policy.file.spec import PolicySpec, ServiceFileSpec
from agent_sandbox.policyfile.parse.checking import bounded, check_document
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import Problem, UserError

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
    for location, place in document.keys.items():
        if location[-1] == "merge_mode":
            yield Problem(where=f"{file}:{place.line}:{place.column}", what=what, hint=hint)


def _repeated(document: Document, spec: PolicySpec, *, file: str) -> Iterator[Problem]:
    """Yield a problem for each duplicate, with the place of the first one."""
    services = ((("services", number), service.name) for number, service in enumerate(spec.services))
    replacing = ((("domains", number), entry.host) for number, entry in enumerate(spec.domains) if entry.merge_mode)
    for location, first, name in (*_twice(services), *_twice(replacing)):
        place, other = document.places[location], document.places[first]
        what, hint = REPEATED[str(location[0])]
        also = f"{what.format(name)} at {file}:{other.line}:{other.column}, too"
        yield Problem(where=f"{file}:{place.line}:{place.column}", what=also, hint=hint)


def _twice[T: Hashable](placed: Iterable[tuple[Location, T]]) -> Iterator[tuple[Location, Location, T]]:
    first: dict[T, Location] = {}
    for location, value in placed:
        before = first.setdefault(value, location)
        if before is not location:
            yield location, before, value
