"""Remember which registries this machine's tools named, because asking them takes a fraction of a second.

An answer counts until a variable, a file or a program that it depends on changes. It is only used for reports: nothing
is allowed because of it.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox import __version__
from agent_sandbox.bounded_json import read_json
from agent_sandbox.features.policy.registries import Machine, Naming, answers
from agent_sandbox.host.files import write_private
from agent_sandbox.host.program_path import program_path
from agent_sandbox.host.user_dirs import cache_directory, home_directory
from agent_sandbox.problems import UserError

FILE = "registries.json"
MAX_BYTES = 1 << 20


class Inputs(Struct, frozen=True, kw_only=True):
    """The inputs of a tool's answer: variables by the beginning of their names, files, and programs."""

    variables: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


INPUTS: Mapping[str, Inputs] = {
    "debian": Inputs(root=("etc/os-release", "etc/apt/sources.list", "etc/apt/sources.list.d")),
    "node": Inputs(
        variables=("NPM_", "PNPM_", "YARN_"),
        home=(".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pnpm/rc"),
        root=("etc/npmrc", "usr/etc/npmrc", "usr/local/etc/npmrc"),
        programs=("npm", "pnpm", "yarn"),
    ),
    "python": Inputs(
        variables=("PIP_", "UV_"),
        home=(".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml"),
        root=("etc/pip.conf", "etc/xdg/pip/pip.conf"),
        programs=("python3",),
    ),
}


def remembered_answers(name: str, machine: Machine) -> tuple[Naming, ...]:
    """Return the registries of a service that the machine names; reuse the last answer if no input has changed."""
    folder, state = cache_directory(machine.environ), _state(INPUTS[name], machine)
    known = _read(folder) if folder else {}
    with suppress(LookupError, TypeError, ValueError):  # not remembered, or damaged
        if known[name]["state"] == state:
            return tuple((by, (scheme, host, port)) for by, scheme, host, port in known[name]["answer"])
    now = tuple(dict.fromkeys(answers(name, machine)))
    if folder:
        _write(folder, {**known, name: {"state": state, "answer": [(by, *place) for by, place in now]}})
    return now


def _state(inputs: Inputs, machine: Machine) -> str:
    """Return a hash of all inputs; variables can contain passwords."""
    environ = machine.environ
    path = program_path(environ)
    chosen = {key: value for key, value in environ.items() if key.upper().startswith(inputs.variables)}
    stats = [(str(file), _stat(file)) for file in _files(inputs, machine, path)]
    said = json.dumps([__version__, path, sorted(chosen.items()), stats])
    return hashlib.sha256(said.encode(errors="surrogateescape")).hexdigest()


def _files(inputs: Inputs, machine: Machine, path: str) -> Iterator[Path]:
    home, root = home_directory(machine.environ), machine.root or Path("/")
    yield from (home / name for name in (inputs.home if home else ()) if home)
    for name in inputs.root:
        yield root / name
        yield from sorted((root / name).glob("*"))  # of a directory
    yield from (Path(found) for program in inputs.programs if (found := shutil.which(program, path=path)))


def _stat(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _read(folder: Path) -> dict[str, Any]:
    try:
        with (folder / FILE).open("rb") as file:
            known = read_json(file.read(MAX_BYTES))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(folder: Path, known: Mapping[str, object]) -> None:
    with suppress(OSError, UserError):  # then it is asked again
        write_private(folder, {FILE: json.dumps(known)})
