"""Find the narrowest service options that allow a denied request. Every result is verified."""

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.file.service_options import Access, Levels, is_repository, repository_name
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policytools.explain.remedy import Choice, Entry
from agent_sandbox.policytools.services import with_options, with_the_most

# An unrelated repository: a request that also passes with this one does not depend on the repository.
A_STRANGER = "a-stranger/to-all"
# Repositories come early in a path.
MAX_TRIED = 4


def chosen_for(request: Request, layer: Layer, services: Mapping[str, Layer]) -> Iterator[Choice]:
    """Yield for each service the entry of this layer that would allow the request, if there is one."""
    for name, service in services.items():
        if not service.spec.declared or not decide(with_the_most(service), request).allowed:
            continue
        spec = next((spec for spec in layer.spec.services if spec.name == name), None)
        before = spec.model_dump(exclude_unset=True) if spec else None
        entry = next(_passing(request, service, {"name": name}, before), None)
        if entry and spec and before:
            origin = layer.origin("services", layer.spec.services.index(spec))
            closes = any(option in entry and option not in before for option in _lists(service))
            yield Choice(entry=entry, instead_of=origin, closes_others=closes)
        elif entry:
            yield Choice(entry=entry)


def _passing(request: Request, service: Layer, new: Entry, before: Entry | None) -> Iterator[Entry]:
    """Yield the entries that would allow the request, the narrowest first."""
    place = {key: number for number, key in enumerate(("name", *service.spec.declared))}
    for levels in _levels(service, before):
        entry = {**(before or new), **_at(levels, before or new)}
        for wider in _by_repository(request, service, entry):
            yield dict(sorted(wider.items(), key=lambda item: place.get(item[0], len(place))))


def _at(levels: Mapping[str, str], before: Entry) -> Entry:
    """Return the options with these levels, keeping their other keys."""
    return {option: {**before.get(option, {}), "access": level} for option, level in levels.items()}


def _levels(service: Layer, before: Entry | None) -> Iterator[Mapping[str, str]]:
    """Yield the current levels, then variants with one level raised."""
    declared = service.spec.declared
    kinds: dict[str, Levels] = {name: kind.levels for name, kind in declared.items() if isinstance(kind, Access)}
    reached: dict[str, str] = {}
    if before is not None:
        reached = {name: before[name]["access"] for name in kinds if name in before}
        reached = reached or {name: kind[0] for name, kind in kinds.items()}
        yield reached
    for name, kind in kinds.items():
        for level in kind[kind.index(reached[name]) + 1 :] if name in reached else kind:
            yield {**reached, name: level}


def _by_repository(request: Request, service: Layer, entry: Entry) -> Iterator[Entry]:
    for option in _lists(service):
        named = entry.get(option, [])
        if named and _passes(request, service, entry):
            yield entry
        for repository in islice(_repositories(request), MAX_TRIED):
            # The same repository may be named with less access.
            others = [one for one in named if repository_name(one).lower() != repository.lower()]
            wider, other = ({**entry, option: [*others, one]} for one in (repository, A_STRANGER))
            if _passes(request, service, wider) and not _passes(request, service, other):
                yield wider


def _lists(service: Layer) -> Iterator[str]:
    return (name for name, kind in service.spec.declared.items() if isinstance(kind, str))


def _repositories(request: Request) -> Iterator[str]:
    """Yield the possible repositories in the path: two consecutive segments without a star."""
    for owner, name in pairwise(request.path.split("/")):
        repository = f"{owner}/{name.removesuffix('.git')}"
        # A path can contain a `*`, but in the policy `owner/*` means all of an owner's repositories.
        if is_repository(repository) and "*" not in repository:
            yield repository


def _passes(request: Request, service: Layer, entry: Entry) -> bool:
    return decide(with_options(service, entry), request).allowed
