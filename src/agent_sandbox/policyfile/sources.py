"""Which services are git servers or registries, from sources.yaml."""

from functools import cache
from pathlib import Path

from agent_sandbox.policyfile.resolved import TOOLS

FILE = "sources.yaml"


def is_source(service: str) -> bool:
    """Return whether a service is a git server or a registry, from which one task fetches many files.

    >>> is_source("github"), is_source("node"), is_source("vscode")
    (True, True, False)
    """
    return service in TOOLS or service in _sources()


@cache
def _sources() -> frozenset[str]:
    from agent_sandbox.policyfile.text.document import parse_document  # noqa: PLC0415 - and YAML with it

    names = parse_document(Path(__file__).with_name(FILE).read_text("utf-8"), file=FILE).value
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()
