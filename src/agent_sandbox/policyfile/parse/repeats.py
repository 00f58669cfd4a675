"""Find duplicate services and duplicate `merge_mode: replace` entries in one file."""

from collections.abc import Hashable, Iterable, Iterator

from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policyfile.text.document import Document
from agent_sandbox.problems import Problem


def repeated(document: Document, spec: PolicySpec, *, file: str) -> Iterator[Problem]:
    """Yield a problem for each duplicate, with the place of the first one."""
    services = ((("services", number), service.name) for number, service in enumerate(spec.services))
    replacing = ((("domains", number), entry.host) for number, entry in enumerate(spec.domains) if entry.merge_mode)
    for location, first, name in (*_twice(services), *_twice(replacing)):
        place, other = document.places[location], document.places[first]
        what, hint = WORDS[str(location[0])]
        also = f"{what.format(name)} at {file}:{other.line}:{other.column}, too"
        yield Problem(where=f"{file}:{place.line}:{place.column}", what=also, hint=hint)


WORDS = {
    "services": ("service `{}` is named", "keep one entry with the options of both"),
    "domains": ("`{}` replaces lower layers", "merge the two entries into one"),
}


def _twice[T: Hashable](placed: Iterable[tuple[Location, T]]) -> Iterator[tuple[Location, Location, T]]:
    first: dict[T, Location] = {}
    for location, value in placed:
        before = first.setdefault(value, location)
        if before is not location:
            yield location, before, value
