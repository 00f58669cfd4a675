"""List what stack files and devcontainer.json use of the host machine: paths, shell variables, commands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from os.path import normpath
from typing import Any

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.documents import mapping
from agent_sandbox.project.render.formats import jsonc
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, SHARED
from agent_sandbox.project.render.shared import odd_keys
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.stack.engine import FILES_VARIABLE

# `$NAME`, `${NAME}`, `${NAME:-else}`; a doubled `$` is none.
VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$\{?([A-Za-z_][A-Za-z0-9_]*)")
PLAIN = re.compile(r"[^$\s]+")
ELSEWHERE = ("/", "~", "$")
PATH = (".", *ELSEWHERE)
READ_ONLY = ", read-only"
# Keys by which a stack file includes others; a merge key could hide any of these, or a mount.
MERGE = "<<"
TAKEN_IN = ("include", "env_file", "label_file", "build", "provider", MERGE)
# `seccomp:profile.json`: the filter of system calls, read from that file at each start.
PROFILE = re.compile(r"seccomp[:=](?!unconfined$|builtin$)")
NAMED = ("services", "networks", "volumes")
FROM_FILES = ("configs", "secrets")
HINT = f"write it here, or name the file in `{FILES_VARIABLE}` in {DOTENV}; a variable may come from your shell"
HOST_COMMAND = "initializeCommand"
ODD = "is not as agent-sandbox writes it: an editor would start something other than the sandbox"
ODD_HINT = "agent-sandbox init --force writes this file again"


def mounts(standing: Standing) -> tuple[str, ...]:
    """Return one line for each host path that a service mounts.

    Other keys (devices, secrets, a volume with a path) are shown in the file's difference.
    """
    return tuple(dict.fromkeys(line for path in standing.stack_files for line in _mounts(_document(standing, path))))


def variables(standing: Standing) -> tuple[str, ...]:
    """Return the names of the variables that stack files take from the user's shell."""
    return tuple(sorted({name for path in standing.stack_files for name in _variables(_document(standing, path))}))


def require_whole(standing: Standing) -> None:
    """Raise UserError for stack files that include others, which are read at each start and may change."""
    what = "`{}` includes another file, which trust in this file does not cover"
    problems = [
        Problem(where=str(standing.root / path), what=what.format(key), hint=HINT)
        for path in standing.stack_files
        for key in dict.fromkeys(_taken_in(_document(standing, path)))
    ]
    if problems:
        raise UserError(problems)


def require_shared(standing: Standing) -> None:
    """Raise UserError if an editor would start more than the stack: the shared file says anything else than ours."""
    if SHARED not in standing.files:
        return
    odd = odd_keys(_document(standing, SHARED))
    if odd:
        what = f"{' and '.join(f'`{key}`' for key in odd)} {ODD}"
        raise UserError([Problem(where=str(standing.root / SHARED), what=what, hint=ODD_HINT)])


def members(text: str | None, ours: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line for each member of a devcontainer.json that we do not write."""
    if text is None:
        return ()
    try:
        present = jsonc.parse(text).values
    except jsonc.JsoncError as error:
        return (f"{DEVCONTAINER}:{error.line}:{error.column}: {error.what}",)
    return tuple(
        f"{'on this machine, ' if key == HOST_COMMAND else ''}{key}: {jsonc.to_text(value)}"
        for key, value in present.items()
        if key not in ours or ours[key] != value
    )


def _document(standing: Standing, path: str) -> Mapping[str, Any]:
    return mapping(load_foreign(standing.files[path], file=str(standing.root / path)))


def _mounts(document: Mapping[str, Any]) -> Iterator[str]:
    for name, service in mapping(document.get("services")).items():
        for mount in _sequence(mapping(service).get("volumes")):
            source, target, mode = _long(mount) if isinstance(mount, dict) else _short(str(mount))
            if source:
                yield f"{name}: {_shown(source)} as {target}{mode}"


def _long(mount: Mapping[str, Any]) -> tuple[str, str, str]:
    source = str(mount.get("source", "")) if mount.get("type") == "bind" else ""
    return source, str(mount.get("target", "")), READ_ONLY if mount.get("read_only") == "true" else ""


def _short(mount: str) -> tuple[str, str, str]:
    # `${VARIABLE:-/etc}` has a colon of its own.
    source, target, mode, *_ = [*re.split(r":(?![-?+])", mount), "", ""]
    return source if target and source.startswith(PATH) else "", target, READ_ONLY if "ro" in mode.split(",") else ""


def _shown(source: str) -> str:
    """Return a source relative to the project's directory; the engine resolves it from `.devcontainer`."""
    return source if source.startswith(ELSEWHERE) else normpath(f".devcontainer/{source}")


def _variables(part: Any) -> Iterator[str]:  # noqa: ANN401 - any part of a document
    match part:
        case str():
            yield from VARIABLE.findall(part)
        case dict():
            for key, value in part.items():
                yield from _variables(key)
                yield from _named(value) if key == "environment" else ()
                yield from _variables(value)
        case list():
            for value in part:
                yield from _variables(value)


def _named(environment: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield variables without a value: the engine takes the shell's."""
    if isinstance(environment, str):  # of a secret, or of a file of settings
        yield from [environment] if PLAIN.fullmatch(environment) else ()
    elif isinstance(environment, dict):
        yield from (str(key) for key, value in environment.items() if value in ("", "null", "~"))
    else:
        yield from (entry for entry in _sequence(environment) if isinstance(entry, str) and "=" not in entry)


def _taken_in(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys by which a stack file includes others; names of services and volumes do not count."""
    yield from _keys(document)
    for key, part in document.items():
        if key not in NAMED:
            yield from _within(part)
            continue
        yield from (name for name, inner in mapping(part).items() if name == MERGE and inner)
        for inner in mapping(part).values():
            yield from _within(inner)


def _within(part: Any) -> Iterator[str]:  # noqa: ANN401 - any part of a document
    yield from _keys(part)
    for inner in (*mapping(part).values(), *_sequence(part)):
        yield from _within(inner)


def _keys(part: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    for key, value in mapping(part).items():
        if value and key in TAKEN_IN:
            yield key
        # `extends` alone, or with a service, stays within the file.
        if key == "extends" and _has_file(value):
            yield key
        if key in FROM_FILES and _has_file(value):
            yield f"{key}: file"
        if key == "security_opt" and any(PROFILE.match(str(option)) for option in _sequence(value)):
            yield f"{key}: seccomp"


def _has_file(part: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether the key `file` occurs at any depth."""
    return "file" in mapping(part) or any(map(_has_file, (*mapping(part).values(), *_sequence(part))))


def _sequence(value: Any) -> Sequence[Any]:  # noqa: ANN401 - as above
    return value if isinstance(value, list) else ()
