"""The services that a policy can name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, override

from agent_sandbox.policyfile.resolved import FOLDER, RESOLVED, TOOLS, UNRESOLVED, found_beside, require_reading
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import Read, read_policy
from agent_sandbox.resources import data_root

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.layer import Layer


def shipped_services() -> "Catalogue":
    """Return the services that ship with the product."""
    return Catalogue(folder=data_root() / "services")


def services_beside(policy: Path, *, read: Read = read_policy) -> "Catalogue":
    """Return the services that a policy can name: the shipped ones, and those resolved in its directory."""
    return Catalogue(folder=data_root() / "services", beside=policy.parent / FOLDER, read=read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Mapping[str, "Layer"]):
    """Services by name, one file each, read on access. Resolved services are only in the directory of a policy.

    A policy can name one before it is resolved: it allows nothing until then.
    """

    folder: Path
    beside: Path | None = None
    read: Read = read_policy

    @override
    def __getitem__(self, name: str) -> "Layer":
        from agent_sandbox.policyfile.parse.parsing import parse_service  # noqa: PLC0415 - not needed for names

        if name not in self.names:
            raise KeyError(name)
        path = (self.beside if self.beside and name in TOOLS else self.folder) / f"{name}.yaml"
        file, shown = str(path), f"{FOLDER}/{path.name}"
        if name in RESOLVED and name not in self.found:
            return parse_service(UNRESOLVED, name=name, file=file, shown=shown)
        text = decode_policy(self.read(path, own_folder=name in TOOLS), file=file)
        layer = parse_service(text, name=name, file=file, shown=shown)
        return require_reading(layer, file=file) if name in TOOLS else layer

    @override
    def __contains__(self, name: object) -> bool:
        return name in self.names

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @override
    def __len__(self) -> int:
        return len(self.names)

    @property
    def shipped(self) -> "Catalogue":
        """Only the shipped services: a project's resolved services are not for other layers."""
        return replace(self, beside=None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all services; only these are ever looked up on disk."""
        return tuple(sorted(_shipped(self.folder.absolute()).union(RESOLVED if self.beside else (), self.found)))

    @property
    def found(self) -> tuple[str, ...]:
        """The services that are resolved in the directory of the policy."""
        return found_beside(self.beside) if self.beside else ()


@cache  # the shipped services never change while the program runs, and each access needs all names
def _shipped(folder: Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.yaml")).difference(TOOLS)
