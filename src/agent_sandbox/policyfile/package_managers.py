"""How to recognise requests of package managers, from resolved.yaml, which documents its keys."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from agent_sandbox.policyfile.resolved import RESOLVED

if TYPE_CHECKING:
    from agent_sandbox.policy.explain.package_manager import PackageManager

FILE = "resolved.yaml"


def aliases() -> Mapping[str, list[str]]:
    """Return the aliases of each resolved service."""
    return {name: known["also"] for name, known in _known().items()}


@cache
def package_managers() -> "tuple[PackageManager, ...]":
    """Return the known package managers, read on first use."""
    from agent_sandbox.policy.explain.package_manager import PackageManager  # noqa: PLC0415 - not needed for aliases

    return tuple(
        PackageManager(
            tool=RESOLVED[name],
            service=name,
            clients=tuple(map(str.casefold, known["clients"])),
            paths=tuple(parse_path_pattern(PathKind.GLOB, path) for path in known["paths"]),
        )
        for name, known in _known().items()
    )


@cache
def _known() -> Mapping[str, Mapping[str, list[str]]]:
    from agent_sandbox.policyfile.text.document import parse_document  # noqa: PLC0415 - and YAML with it

    text = Path(__file__).with_name(FILE).read_text("utf-8")
    return cast("dict[str, dict[str, list[str]]]", parse_document(text, file=FILE).value)
