"""The agents of one stack: what they need together, and which agents cannot share a sandbox."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_sandbox.agents.home import within
from agent_sandbox.agents.pin import Pin, Pins, is_newer
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest

# Of all names together: they become the name of an image, which has a limit of 255 characters.
NAMES_LENGTH = 160
APART = "use them in separate projects, or change the manifest of your own agent"


class Agents(Struct, frozen=True):
    """The agents of one stack, at least one, in the user's order; `run` without a name starts the first.

    >>> Agents(())
    Traceback (most recent call last):
    ...
    agent_sandbox.problems.UserError: no agent was named
    """

    manifests: "tuple[AgentManifest, ...]"
    # The project's pins that are in the manifests.
    pins: Pins = {}

    def __post_init__(self) -> None:
        """Raise UserError if these agents cannot share a sandbox."""
        found = [*_faults(self.manifests)]
        if found:
            raise UserError(found)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names."""
        return tuple(one.name for one in self.manifests)

    @property
    def title(self) -> str:
        """The agents' titles, as in a sentence."""
        return sentence([one.title for one in self.manifests])

    @property
    def env(self) -> Mapping[str, str]:
        """The variables for every process."""
        return {name: value for one in self.manifests for name, value in one.env.items()}

    @property
    def services(self) -> tuple[str, ...]:
        """The services that a policy starts with."""
        return tuple(dict.fromkeys(service for one in self.manifests for service in one.services))

    @property
    def providers(self) -> tuple[str, ...]:
        """The services of model providers that the user chooses among."""
        return tuple(dict.fromkeys(provider for one in self.manifests for provider in one.providers))

    def with_pins(self, pins: Pins) -> "Agents":
        """Return the agents with those of the project's pins that are newer than what their manifests have."""
        new = tuple(pinned(one, pins.get(one.name)) for one in self.manifests)
        used = {one.name: pins[one.name] for one, before in zip(new, self.manifests, strict=True) if one is not before}
        return Agents(new, used)

    def connecting_to(self, service: str) -> "Agents":
        """Return those of the agents that connect to a service."""
        return Agents(tuple(one for one in self.manifests if service in (*one.services, *one.providers)))

    def extensions(self, editor: str) -> tuple[str, ...]:
        """Return the extensions for an editor."""
        return tuple(dict.fromkeys(name for one in self.manifests for name in one.editor.get(editor, ())))


def pinned(manifest: "AgentManifest", pin: Pin | None) -> "AgentManifest":
    """Return the manifest with a project's pin, or as it is if that is not newer: updates only go forward."""
    npm = manifest.install.npm
    if pin is None or npm is None or not is_newer(pin.version, npm.version):
        return manifest
    npm = npm.model_copy(update={"version": pin.version, "integrity": pin.integrity})
    return manifest.model_copy(update={"install": manifest.install.model_copy(update={"npm": npm})})


def sentence(words: Sequence[str]) -> str:
    """Return the words as in a sentence.

    >>> sentence(["a"]), sentence(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _faults(manifests: "tuple[AgentManifest, ...]") -> Iterator[Problem]:
    if not manifests:
        yield Problem(where="", what="no agent was named")
    names = [one.name for one in manifests]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Problem(where="", what=f"the agent `{name}` was named twice", hint="name each agent once")
    if sum(map(len, names)) > NAMES_LENGTH:
        what = f"{len(names)} agents with names of {sum(map(len, names))} characters are too many for one sandbox"
        yield Problem(where="", what=what, hint=f"use agents whose names have up to {NAMES_LENGTH} characters together")
    for one, other in combinations(manifests, 2):
        if one.name != other.name:
            yield from (
                Problem(where="", what=f"{one.name} and {other.name} cannot share a sandbox: {why}", hint=APART)
                for why in _conflicts(one, other)
            )


def _conflicts(one: "AgentManifest", other: "AgentManifest") -> Iterator[str]:
    """Yield why two agents cannot share a sandbox."""
    if one.command[0] == other.command[0]:
        yield f"both install the program `{one.command[0]}`"
    for path in one.state:
        for place in other.state:
            if within(path, place) or within(place, path):
                yield f"both keep their state in ~/{max(path, place, key=len)}"
    for name in one.env.keys() & other.env.keys():
        if one.env[name] != other.env[name]:
            yield f"both set {name}, to different values"
    for path in one.unattended.files.keys() & other.unattended.files.keys():
        yield f"both install an initial ~/{path}"
