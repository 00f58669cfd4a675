"""Services that no file of ours can hold: which registry a tool asks is in the tool's own configuration.

`agent-sandbox policy services resolve` writes what it finds there beside the policy, one file each, and a policy names
it like any other service. Such a file is only ever for reading, whoever has written it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.policy.file.entry_spec import DomainSpec

# Each with whose configuration names the registry.
RESOLVED: Mapping[str, str] = {"debian": "apt", "node": "npm", "python": "pip"}
FOLDER = "services"
COMMAND = "agent-sandbox policy services resolve"
READING = frozenset({"GET", "HEAD"})
# What such a file may say. Whatever else the language has, today or later, is an error in it.
SECTIONS = frozenset({"version", "domains", "title", "reason", "date"})


def paths_beside(policy: Path) -> tuple[Path, ...]:
    """Return where each of these services lies, once it has been resolved for a policy."""
    return tuple(policy.parent / FOLDER / f"{name}.yaml" for name in RESOLVED)


def found_beside(folder: Path) -> tuple[str, ...]:
    """Return which of these services have been resolved there; what can't be read is a problem, and no absence."""
    paths = {name: folder / f"{name}.yaml" for name in RESOLVED}
    return tuple(name for name, path in paths.items() if _stands(path))


def _stands(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # in a folder that is closed, for one: whoever reads it says so
    return True


def advice_for(name: str) -> str:
    """Return what to do about a service that has not been resolved yet."""
    written = f"{FOLDER}/{name}.yaml beside the project's policy, which alone may name it"
    return f"`{COMMAND} {name}` asks {RESOLVED[name]}'s configuration and writes {written}"


def require_reading(layer: Layer, *, file: str) -> Layer:
    """Return the layer if it lets nothing through but reading from hosts that it names, or raise UserError."""
    problems = list(_problems(layer, file))
    if problems:
        raise UserError(problems)
    return layer


def _problems(layer: Layer, file: str) -> Iterator[Problem]:
    for section in sorted(layer.spec.model_fields_set - SECTIONS, key=lambda name: (layer.origin(name).line, name)):
        yield Problem(
            where=f"{file}:{layer.origin(section).line}",
            what=f"`{section}` does not go into a resolved service",
            hint="it belongs in policy.yaml",
        )
    for number, entry in enumerate(layer.spec.domains):
        if not _is_reading(entry):
            yield Problem(
                where=f"{file}:{layer.origin('domains', number).line}",
                what=f"{entry.host}: a resolved service is for reading from hosts by their whole names",
                hint="write `rules: [{methods: [GET]}]`; what is wider belongs in policy.yaml",
            )
        if entry.transform or any(rule.transform for rule in entry.rules):
            yield Problem(
                where=f"{file}:{layer.origin('domains', number).line}",
                what=f"{entry.host}: a resolved service puts no secret in",
                hint="an entry with `transform` belongs in policy.yaml",
            )


def _is_reading(entry: "DomainSpec") -> bool:
    methods = [set(rule.methods) for rule in entry.rules]
    return not entry.host.reach and bool(methods) and all(asked and asked <= READING for asked in methods)
