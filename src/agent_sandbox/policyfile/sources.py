"""Which services are git servers or registries, from sources.yaml and git_hosts.yaml."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agent_sandbox.policyfile.resolved import TOOLS

FILE, HOSTS = "sources.yaml", "git_hosts.yaml"


def is_source(service: str) -> bool:
    """Return whether a service is a git server or a registry, from which one task fetches many files.

    >>> is_source("github"), is_source("node"), is_source("vscode")
    (True, True, False)
    """
    return service in TOOLS or service in _sources()


@cache
def _sources() -> frozenset[str]:
    names = _value(FILE)
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


@cache
def git_services() -> Mapping[str, str]:
    """Return the services of git servers by host."""
    services = _value(HOSTS)
    return {str(host): str(name) for host, name in services.items()} if isinstance(services, dict) else {}


def _value(file: str) -> object:
    from agent_sandbox.policyfile.text.document import parse_document  # noqa: PLC0415 - and YAML with it

    return parse_document(Path(__file__).with_name(file).read_text("utf-8"), file=file).value
