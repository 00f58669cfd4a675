"""Looks at a project and at its user's home: what a stack is built from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.user_dirs import config_directory, layer_folders
from agent_sandbox.stack.model import Limits
from agent_sandbox.stack.workspace import Ide, Owner, Protected, Workspace


def find_project(path: Path, environ: Mapping[str, str]) -> Path:
    """Return the project's real directory, or say why it is none that may be given to an agent."""
    try:
        project = path.resolve(strict=True)
        str(project).encode()
    except FileNotFoundError as error:
        raise UserError([Problem(where=str(path), what="no such directory")]) from error
    except UnicodeEncodeError as error:
        raise UserError([Problem(where=repr(str(path)), what="this path is not UTF-8", hint="rename it")]) from error
    except (OSError, RuntimeError) as error:
        raise UserError([Problem(where=str(path), what=f"can't be used: {error}")]) from error
    if not project.is_dir():
        raise UserError([Problem(where=str(path), what="is no directory", hint="name the project's directory")])
    for home in _homes(environ):
        if home == project or home.is_relative_to(project):
            what = "holds your home directory: the agent would have all of it"
            raise UserError([Problem(where=str(project), what=what, hint="choose a directory for the project alone")])
    return project


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield `/`, HOME, and the home that the system knows for this user."""
    yield Path("/")
    candidates = [environ.get("HOME", "")]
    try:
        import pwd  # noqa: PLC0415 - POSIX alone has it

        candidates.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        pass
    for candidate in candidates:
        if Path(candidate).is_absolute():
            yield Path(candidate).resolve()


def look_at(  # noqa: PLR0913 - each is a fact of its own
    project: Path,
    *,
    title: str,
    ide: Ide,
    limits: Limits,
    environ: Mapping[str, str],
    protected: tuple[Protected, ...] = (),
) -> Workspace:
    """Return what a stack has to know of this project and of its user."""
    config = config_directory(environ)
    return Workspace(
        path=str(project),
        title=title,
        ide=ide,
        owner=owner_of(project),
        limits=limits,
        protected=protected,
        dotfiles=_directory(config and config / "dotfiles"),
        shell_d=_directory(config and config / "shell.d"),
        layers={name: folder for name, path in layer_folders(environ).items() if (folder := _directory(path))},
    )


def machine() -> dict[str, int]:
    """Return how much memory and how many processors this machine has; the engine's may have less."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {"memory": pages * page, "cpus": os.cpu_count() or 1}


def owner_of(project: Path) -> Owner:
    """Return the numbers for `dev`: those of the directory's owner; never root's."""
    return owner_by(project.stat())


def owner_by(status: os.stat_result) -> Owner:
    """Return the numbers for `dev` where the directory looks like this."""
    default = Owner()
    if status.st_uid == 0:
        return default
    return Owner(uid=status.st_uid, gid=status.st_gid or default.gid)


def _directory(path: Path | None) -> str | None:
    return str(path.resolve()) if path and path.is_dir() else None
