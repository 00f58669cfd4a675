"""A policy file on disk -> the compiled policy, or every problem of it."""

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import override

from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policy.spec import PolicySpec, ServiceFileSpec
from agent_sandbox.policyfile.checking import check_document
from agent_sandbox.policyfile.decoding import decode_policy
from agent_sandbox.policyfile.document import Document, parse_document
from agent_sandbox.policyfile.hostlists import load_host_list
from agent_sandbox.policyfile.layerfile import PROJECT, LayerFile
from agent_sandbox.policyfile.reading import read_policy
from agent_sandbox.policyfile.resolved import FOLDER, RESOLVED, found_beside, require_reading
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root

MAX_PROBLEMS = 100


def load_policy(path: Path, *, layers: Sequence[LayerFile] = ()) -> Policy:
    """Return the policy that the file makes with the services it names and the layers that are there, lowest first.

    Raises UserError with all that is wrong in any of the files.
    """
    services = services_beside(path)
    present = [layer for layer in layers if layer.is_there]
    with _collector_paused():
        return compile_policy(_load_all([*present, LayerFile(name=PROJECT, path=path)], services), services)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Look for no cycles meanwhile: there are none in what loading makes, and a sixth of its time would go there."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _load_all(files: Iterable[LayerFile], services: "Catalogue") -> list[Layer]:
    layers: list[Layer] = []
    problems: list[Problem] = []
    for file in files:
        try:
            layers.append(load_layer(file, services=services))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    return layers


def shipped_services() -> "Catalogue":
    """Return the services that ship with the product."""
    return Catalogue(folder=data_root() / "services")


def services_beside(policy: Path) -> "Catalogue":
    """Return the services that a policy may name: the shipped ones, and what has been resolved beside it."""
    return Catalogue(folder=data_root() / "services", beside=policy.parent / FOLDER)


def load_layer(file: LayerFile, *, services: "Catalogue") -> Layer:
    """Read one file. Problems name its path, origins what it is `shown` as."""
    where = str(file.path)
    text = decode_policy(read_policy(file.path), file=where)
    layer = parse_layer(text, name=file.name, file=where, shown=file.shown, services=services, tighten=file.tighten)
    name = layer.spec.domains_file
    return replace(layer, listed=load_host_list(file.path.with_name(name))) if name else layer


def parse_layer(  # noqa: PLR0913 - a layer is made of these
    text: str, *, name: str, file: str, shown: str, services: Collection[str], tighten: bool = False
) -> Layer:
    """Return the layer that the text makes, or raise UserError with every problem of it."""
    document = parse_document(text, file=file)
    spec = _checked(document, file, services, PolicySpec)
    layer = Layer(name=name, file=shown, spec=spec, lines=document.lines, tighten=tighten)
    if layer.only_narrows:
        _refuse_to_replace(document, file)
    return layer


def parse_service(text: str, *, name: str, file: str, shown: str) -> Layer:
    """Return the service that the text makes, or raise UserError with every problem of it."""
    document = parse_document(text, file=file)
    spec = _checked(document, file, (), ServiceFileSpec)
    return Layer(name=f"service {name}", file=shown, spec=spec, lines=document.lines)


def _checked(document: Document, file: str, services: Collection[str], model: type[PolicySpec]) -> PolicySpec:
    try:
        return check_document(document, file=file, services=services, model=model)
    except UserError as error:
        raise _bounded(error) from error


def _refuse_to_replace(document: Document, file: str) -> None:
    what, hint = "a layer that may only narrow has nothing to replace", "take `merge_mode` out"
    places = [place for location, place in document.keys.items() if location[-1] == "merge_mode"]
    if places:
        raise UserError(Problem(where=f"{file}:{at.line}:{at.column}", what=what, hint=hint) for at in places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Mapping[str, Layer]):
    """Services by name: one file each, read when it is named. Resolved ones lie beside a policy, and nowhere else."""

    folder: Path
    beside: Path | None = None

    @override
    def __getitem__(self, name: str) -> Layer:
        if name not in self.names:
            raise KeyError(name)
        path = (self.beside if self.beside and name in RESOLVED else self.folder) / f"{name}.yaml"
        file, shown = str(path), f"{FOLDER}/{path.name}"
        text = decode_policy(read_policy(path, own_folder=name in RESOLVED), file=file)
        layer = parse_service(text, name=name, file=file, shown=shown)
        return require_reading(layer, file=file) if name in RESOLVED else layer

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
        shipped = {path.stem for path in self.folder.glob("*.yaml")}
        return tuple(sorted(shipped.difference(RESOLVED).union(found_beside(self.beside) if self.beside else ())))


def _bounded(error: UserError) -> UserError:
    hidden = len(error.problems) - MAX_PROBLEMS
    if hidden <= 0:
        return error
    more = Problem(where="", what=f"and {hidden} more problems")
    return UserError([*error.problems[:MAX_PROBLEMS], more])
