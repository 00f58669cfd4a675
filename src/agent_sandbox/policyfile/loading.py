"""A policy file on disk -> the compiled policy, or every problem of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import override

from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policyfile.checking import check_document
from agent_sandbox.policyfile.decoding import decode_policy
from agent_sandbox.policyfile.document import parse_document
from agent_sandbox.policyfile.reading import read_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root

MAX_PROBLEMS = 100


def load_policy(path: Path) -> Policy:
    """Return the policy that the file makes with the services it names; raise UserError with all that is wrong."""
    services = shipped_services()
    return compile_policy([load_layer(path, name="project", services=services)], services)


def shipped_services() -> "Catalogue":
    """Return the services that ship with the product."""
    return Catalogue(folder=data_root() / "services")


def load_layer(path: Path, *, name: str, services: "Catalogue") -> Layer:
    """Read one file. Problems name it as the caller does, origins by its last part: they reach the agent."""
    text = decode_policy(read_policy(path), file=str(path))
    return parse_layer(text, name=name, file=str(path), shown=path.name, services=services.names)


def parse_layer(text: str, *, name: str, file: str, shown: str, services: tuple[str, ...]) -> Layer:
    """Return the layer that the text makes, or raise UserError with every problem of it."""
    document = parse_document(text, file=file)
    try:
        spec = check_document(document, file=file, services=services)
    except UserError as error:
        raise _bounded(error) from error
    lines = {location: place.line for location, place in document.places.items()}
    return Layer(name=name, file=shown, spec=spec, lines=lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Mapping[str, Layer]):
    """Services by name: one file each, read when it is named."""

    folder: Path

    @override
    def __getitem__(self, name: str) -> Layer:
        if name not in self.names:
            raise KeyError(name)
        path = self.folder / f"{name}.yaml"
        text = decode_policy(read_policy(path), file=str(path))
        return parse_layer(text, name=f"service {name}", file=str(path), shown=f"services/{path.name}", services=())

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
    def names(self) -> tuple[str, ...]:
        """The services there are; only these are ever looked for on disk."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.yaml")))


def _bounded(error: UserError) -> UserError:
    hidden = len(error.problems) - MAX_PROBLEMS
    if hidden <= 0:
        return error
    more = Problem(where="", what=f"and {hidden} more problems")
    return UserError([*error.problems[:MAX_PROBLEMS], more])
