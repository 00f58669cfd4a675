"""What people call a service besides its name: words that lead to it, and that no policy may hold."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.spec import ServiceFileSpec
from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.resources import data_root


def service_called(word: str, names: Collection[str]) -> str | None:
    """Return the one of these services that goes by that word, too.

    >>> service_called("golang", ["go"]), service_called("golang", ["rust"])
    ('go', None)
    """
    name = _by_alias().get(word.casefold())
    return name if name in names else None


def service_meant(word: str) -> str | None:
    """Return the service that is meant by a word which stands where a host does.

    >>> service_meant("github"), service_meant("npm"), service_meant("intranet")
    ('github', 'node', None)
    """
    names = {*(path.stem for path in _files()), *aliases()}
    return word if word in names else service_called(word, names)


def known_elsewhere(word: str) -> bool:
    """Tell whether a policy that `policy import` reads may name a service by this word, and we have none like it.

    >>> known_elsewhere("Factory"), known_elsewhere("github")
    (True, False)
    """
    return word.casefold() in _elsewhere()


@cache
def _elsewhere() -> frozenset[str]:
    text = files(__package__).joinpath("elsewhere.yaml").read_text("utf-8")
    names = parse_document(text, file="elsewhere.yaml").value
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def also_called(layer: Layer) -> tuple[str, ...]:
    """Return what people call a service besides its name."""
    return layer.spec.also if isinstance(layer.spec, ServiceFileSpec) else ()


@cache
def _by_alias() -> Mapping[str, str]:
    """Read them once, and only when somebody wrote an unknown name."""
    return {alias: name for name, also in _all() for alias in also}


def _all() -> Iterator[tuple[str, list[str]]]:
    for path in _files():
        told = parse_document(path.read_text("utf-8"), file=path.name).value
        also = told.get("also") if isinstance(told, dict) else None
        yield path.stem, [word for word in also if isinstance(word, str)] if isinstance(also, list) else []
    yield from aliases().items()


def _files() -> list[Path]:
    return sorted((data_root() / "services").glob("*.yaml"))
