"""Other names of services, for policies, commands and hints."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.resources import data_root

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.layer import Layer


def service_called(word: str, names: Collection[str]) -> str | None:
    """Return the one of these services that has this name or alias, or None.

    >>> service_called("golang", ["go"]), service_called("golang", ["rust"]), service_called("go", ["go"])
    ('go', None, 'go')
    """
    name = word if word in names else _by_alias().get(word.casefold())
    return name if name in names else None


def service_meant(word: str) -> str | None:
    """Return the service that a word written in place of a host means, or None.

    >>> service_meant("github"), service_meant("npm"), service_meant("intranet")
    ('github', 'node', None)
    """
    names = {path.stem for path in _files()}
    if word in names:
        return word
    names |= aliases().keys()
    return word if word in names else service_called(word, names)


def service_near(word: str) -> str:
    """Return the service or alias that a mistyped word is close to, or "".

    >>> service_near("gihub"), service_near("intranet")
    ('github', '')
    """
    known = sorted({path.stem for path in _files()} | aliases().keys() | _by_alias().keys())
    return next(iter(get_close_matches(word.casefold(), known, n=1, cutoff=0.75)), "")


def known_elsewhere(word: str) -> bool:
    """Return whether the word is a service of a policy format that `policy import` reads, without a counterpart here.

    >>> known_elsewhere("Pi"), known_elsewhere("github")
    (True, False)
    """
    return word.casefold() in _elsewhere()


@cache
def _elsewhere() -> frozenset[str]:
    text = Path(__file__).with_name("elsewhere.yaml").read_text("utf-8")
    names = parse_document(text, file="elsewhere.yaml").value
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def every_alias() -> Collection[str]:
    """Return the other names of all services."""
    return _by_alias().keys()


def also_called(layer: "Layer") -> tuple[str, ...]:
    """Return the aliases of a service."""
    return getattr(layer.spec, "also", ())  # only a service's file has them


@cache
def _by_alias() -> Mapping[str, str]:
    """Return all services by alias; read once, and only when a name is not that of a service."""
    return {alias: name for name, also in _all() for alias in also}


def _all() -> Iterator[tuple[str, list[str]]]:
    for path in _files():
        service = parse_document(path.read_text("utf-8"), file=path.name).value
        also = service.get("also") if isinstance(service, dict) else None
        yield path.stem, [word for word in also if isinstance(word, str)] if isinstance(also, list) else []
    yield from aliases().items()


@cache  # the shipped services never change while the program runs
def _files() -> list[Path]:
    return sorted((data_root() / "services").glob("*.yaml"))
