"""A policy file on disk -> the compiled policy, or every problem of it."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policyfile.catalogue import Catalogue, services_beside
from agent_sandbox.policyfile.decoding import decode_policy
from agent_sandbox.policyfile.hostlists import load_host_list
from agent_sandbox.policyfile.layerfile import PROJECT, LayerFile
from agent_sandbox.policyfile.parsing import parse_layer
from agent_sandbox.policyfile.reading import read_policy
from agent_sandbox.problems import Problem, UserError


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


def _load_all(files: Iterable[LayerFile], services: Catalogue) -> list[Layer]:
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


def load_layer(file: LayerFile, *, services: Catalogue) -> Layer:
    """Read one file. Problems name its path, origins what it is `shown` as."""
    where = str(file.path)
    text = decode_policy(read_policy(file.path), file=where)
    layer = parse_layer(text, name=file.name, file=where, shown=file.shown, services=services, tighten=file.tighten)
    name = layer.spec.domains_file
    return replace(layer, listed=load_host_list(file.path.with_name(name))) if name else layer
