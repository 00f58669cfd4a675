"""Resolved services: package registries whose hosts are in the configuration of a tool, such as pip.

`agent-sandbox policy services resolve` writes one file each into the directory of the policy, which then names it like
any other service. Such a file can only allow reading.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.layer import Layer
    from agent_sandbox.policy.file.entry_spec import DomainSpec

# The tool whose configuration names the registry, by service.
RESOLVED: Mapping[str, str] = {"debian": "apt", "node": "npm", "python": "pip"}
# Shipped services whose tool may be configured for further registries: `go-mirror` adds them to `go`, in every policy
# that names `go`.
MIRRORED: Mapping[str, str] = {"go": "go", "java": "maven", "ruby": "bundler", "rust": "cargo"}
MIRRORS: Mapping[str, str] = {f"{name}-mirror": name for name in MIRRORED}
# All services that have a file beside the policy, and the tool of each.
TOOLS: Mapping[str, str] = {**RESOLVED, **{mirror: MIRRORED[name] for mirror, name in MIRRORS.items()}}
FOLDER = "services"
COMMAND = "agent-sandbox policy services resolve"
# What a service allows before it is resolved.
UNRESOLVED = "title: not resolved yet\ndomains: []\n"
ONLY_PROJECT = "its registries are resolved for each project: name it in .devcontainer/policy.yaml"
READING = frozenset({"GET", "HEAD"})
# The sections that such a file can have. All others, including future ones, are errors.
SECTIONS = frozenset({"version", "domains", "title", "reason", "date"})


def paths_beside(policy: Path) -> tuple[Path, ...]:
    """Return the paths of the resolved services of a policy."""
    return tuple(policy.parent / FOLDER / f"{name}.yaml" for name in TOOLS)


def found_beside(folder: Path) -> tuple[str, ...]:
    """Return the services that are resolved in this directory; unreadable files count, as reading them reports why."""
    paths = {name: folder / f"{name}.yaml" for name in TOOLS}
    return tuple(name for name, path in paths.items() if _exists(path))


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # for example in an unreadable directory; reading the file reports it
    return True


def resolved_for(name: str) -> str:
    """Return the resolved service that belongs to a service: itself, or its mirror; empty if it has none.

    >>> resolved_for("node"), resolved_for("go"), resolved_for("github")
    ('node', 'go-mirror', '')
    """
    return name if name in TOOLS else f"{name}-mirror" if name in MIRRORED else ""


def advice_for(name: str) -> str:
    """Return the hint for a service that has not been resolved yet."""
    tool = RESOLVED[name]
    return f"agent-sandbox policy allow {tool} takes its registry from {tool}'s configuration on this machine"


def require_reading(layer: "Layer", *, file: str) -> "Layer":
    """Return the layer if it only allows reading from exact hosts, or raise UserError."""
    problems = list(_problems(layer, file))
    if problems:
        raise UserError(problems)
    return layer


def _problems(layer: "Layer", file: str) -> Iterator[Problem]:
    for section in sorted(layer.spec.model_fields_set - SECTIONS, key=lambda name: (layer.origin(name).line, name)):
        yield Problem(
            where=f"{file}:{layer.origin(section).line}",
            what=f"`{section}` is not possible in a resolved service",
            hint="move it to policy.yaml",
        )
    for number, entry in enumerate(layer.spec.domains):
        if not _is_reading(entry):
            yield Problem(
                where=f"{file}:{layer.origin('domains', number).line}",
                what=f"{entry.host}: a resolved service can only allow reading from exact hosts",
                hint="write `rules: [{methods: [GET]}]`; allow anything wider in policy.yaml",
            )
        if entry.transform or any(rule.transform for rule in entry.rules):
            yield Problem(
                where=f"{file}:{layer.origin('domains', number).line}",
                what=f"{entry.host}: a resolved service cannot inject a secret",
                hint="move the entry with `transform` to policy.yaml",
            )


def _is_reading(entry: "DomainSpec") -> bool:
    methods = [set(rule.methods) for rule in entry.rules]
    return not entry.host.reach and bool(methods) and all(asked and asked <= READING for asked in methods)
