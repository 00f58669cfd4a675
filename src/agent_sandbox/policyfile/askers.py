"""What is known of who asks a registry that only a tool's own configuration names: resolved.yaml explains itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import cast

from agent_sandbox.policyfile.document import parse_document

FILE = "resolved.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Other words for a service that is resolved, and how its clients and its registry are known."""

    also: tuple[str, ...]
    clients: tuple[str, ...]
    paths: tuple[str, ...]


@cache
def askers() -> Mapping[str, Asker]:
    """Return what is known of each service that is resolved; read when it is first asked for."""
    text = files("agent_sandbox.policyfile").joinpath(FILE).read_text("utf-8")
    told = cast("dict[str, dict[str, list[str]]]", parse_document(text, file=FILE).value)
    return {name: Asker(**{key: tuple(values) for key, values in known.items()}) for name, known in told.items()}
