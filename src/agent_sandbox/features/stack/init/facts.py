"""Collect the facts about a project and its user that a stack is built from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_sandbox.features.stack.init.build_registries import mirrors_of
from agent_sandbox.host.git.ask import ask_git_again
from agent_sandbox.host.settings import folder_of
from agent_sandbox.host.user_dirs import config_directory, layer_folders
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project import owners
from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.recorded import Ide
from agent_sandbox.stack.workspace import Identity, Protected, Workspace


def find_project(path: Path, environ: Mapping[str, str]) -> Path:
    """Return the project's real directory; raise UserError if an agent must not get it."""
    try:
        project = path.resolve(strict=True)
        str(project).encode()
    except FileNotFoundError as error:
        raise UserError([Problem(where=str(path), what="no such directory")]) from error
    except UnicodeEncodeError as error:
        raise UserError([Problem(where=repr(str(path)), what="this path is not UTF-8", hint="rename it")]) from error
    except (OSError, RuntimeError) as error:
        raise UserError([Problem(where=str(path), what=f"cannot be used: {error}")]) from error
    if not project.is_dir():
        raise UserError([Problem(where=str(path), what="not a directory", hint="name the project's directory")])
    for home in homes(environ):
        if home == project or home.is_relative_to(project):
            what = "contains your home directory: the agent would have access to all of it"
            raise UserError(
                [Problem(where=str(project), what=what, hint="choose a directory that contains only the project")]
            )
    return project


def homes(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield `/`, HOME, and this user's home directory in the user database."""
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
    is_titled: bool = False,
    dotenv: bool = True,
    all_use_dotenv: bool = True,
    settings: bool = False,
    project_file: str = "",
    protected: tuple[Protected, ...] = (),
) -> Workspace:
    """Return the facts about this project and its user."""
    config = config_directory(environ)
    copies = folder_of(stack_name(title, str(project)), environ)
    return Workspace(
        path=str(project),
        title=title,
        is_titled=is_titled,
        ide=ide,
        owner=owners.owner_of(project),
        identity=identity_in(project),
        mirrors=mirrors_of(project, environ),
        limits=limits,
        dotenv=dotenv,
        all_use_dotenv=all_use_dotenv,
        project_file=project_file,
        protected=protected,
        dotfiles=_directory(config and config / "dotfiles"),
        shell_d=_directory(config and config / "shell.d"),
        settings=str(copies) if settings else None,
        layers={name: folder for name, path in layer_folders(environ).items() if (folder := _directory(path))},
    )


def machine() -> dict[str, int]:
    """Return this machine's memory and processors; the engine's machine may have less."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {"memory": pages * page, "cpus": os.cpu_count() or 1}


def identity_in(project: Path) -> Identity:
    """Return who commits in this project by the user's own git settings; the repository's are visible in the sandbox.

    What must be protected is found first, which reads the repository's settings, so they are not read here again.
    """
    try:
        said = ask_git_again(
            "config", "--global", "--includes", "-z", "--get-regexp", r"^user\.(name|email)$", cwd=project
        )
    except (OSError, UserError):
        return Identity(name="", email="")  # if git does not answer, there is no name, and git inside asks for one
    pairs = (setting.partition("\n") for setting in said.out.split("\0"))
    values = {key: value for key, _, value in pairs if value.isprintable()}
    return Identity(name=values.get("user.name", ""), email=values.get("user.email", ""))


def _directory(path: Path | None) -> str | None:
    return str(path.resolve()) if path and path.is_dir() else None
