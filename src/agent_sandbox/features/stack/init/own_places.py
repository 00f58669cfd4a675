"""Resolve the mounts and masks of a project file, and refuse those that would weaken the sandbox."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from agent_sandbox.agents.home import HOME
from agent_sandbox.features.protect.protected import candidates, is_there
from agent_sandbox.features.stack.init.facts import homes
from agent_sandbox.host.files import is_real
from agent_sandbox.host.git.git_config import Patience
from agent_sandbox.host.user_dirs import cache_directory, config_directory, home_directory, state_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render.paths import DOTENV
from agent_sandbox.stack.containers import WORKSPACE
from agent_sandbox.stack.recorded import Access
from agent_sandbox.stack.workspace import Mask, OwnMount, Protected

# Directories of the machine that belong to its system, its engines and their sockets: neither they nor parts of them.
SYSTEM = tuple(
    map(
        Path,
        (
            *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"),
            *("/Applications", "/Library", "/System", "/private"),  # macOS
        ),
    )
)
# Directories of a home directory with settings and credentials that are not hidden: of macOS and of Windows.
SETTINGS = frozenset({"library", "appdata"})
# Directories with parts of many programs or users.
SHARED = frozenset(map(Path, ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/Users", "/Volumes")))  # noqa: S108 - refused
# Directories of the image: a mount at one of them would replace programs or hide the project.
IMAGE = frozenset(
    {
        *("bin", "boot", "build", "dev", "etc", "lib", "lib32", "lib64", "layers", "opt", "policy", "proc", "root"),
        *("run", "sbin", "state", "sys", "tmp", "usr", "var", "workspace"),
    }
)
type Where = Callable[..., str]
PARENT = "can be written, but not moved: something in it is masked"


def own_mounts(
    project: Path, asked: Iterable[tuple[str, bool]], environ: Mapping[str, str], *, others: Iterable[Path], at: Where
) -> tuple[OwnMount, ...]:
    """Return the mounts for these paths, each with whether it is read-only; raise UserError with every problem.

    `others` are the directories of other projects with a sandbox; `at` gives the place of each path in the file.
    """
    found: list[OwnMount] = []
    problems: list[Problem] = []
    away = tuple(others)
    for number, (path, read_only) in enumerate(asked):
        source = place_of(project, path, environ)
        target = _target(path, source)
        why = _refusal(project, source, environ, away) or _target_refusal(path, target)
        if not why and not read_only and (acted_on := _acted_on(source)):
            why = f"programs on this machine act on {acted_on}, which the agent could then write"
        if why:
            problems.append(Problem(where=at(number), what=f"`mounts`: {path}: {why}", hint="mount another directory"))
        found.append(OwnMount(source=str(source), target=target, read_only=read_only))
    targets = [mount.target for mount in found]
    twice = sorted({one for one in targets if targets.count(one) > 1})
    problems += (Problem(where=at(), what=f"`mounts`: two of them would be at {one}") for one in twice)
    problems += (Problem(where=at(), what=f"`mounts`: {one}") for one in _replaceable(found))
    if problems:
        raise UserError(problems)
    return tuple(found)


def _replaceable(mounts: Sequence[OwnMount]) -> Iterator[str]:
    """Yield each mount whose source the agent could replace by a link, which the next start would follow."""
    for one in mounts:
        for other in mounts:
            if not other.read_only and one != other and _is_in(Path(one.source), Path(other.source)):
                yield f"{one.source} is in {other.source}, where the agent could replace it by a link to another place"


def place_of(project: Path, path: str, environ: Mapping[str, str]) -> Path:
    """Return the absolute path without following links, except in the user's home directory itself."""
    if path.startswith("~/"):
        home = home_directory(environ) or Path("/nonexistent")
        return Path(os.path.normpath(Path(os.path.realpath(home)) / path[2:]))
    return Path(os.path.normpath(project / path))


def _target(path: str, source: Path) -> str:
    """Return the path inside: as the project sees it from its own directory.

    >>> _target("../shared", Path("/home/ann/shared")), _target("~/data", Path("/home/ann/data"))
    ('/shared', '/home/dev/data')
    """
    if path.startswith("~/"):
        return os.path.normpath(f"{HOME}/{path[2:]}")
    return os.path.normpath(f"{WORKSPACE}/{path}") if path.startswith("../") else str(source)


def _refusal(project: Path, source: Path, environ: Mapping[str, str], others: Sequence[Path]) -> str:
    """Return why a path must not be mounted, or ""."""
    try:
        mode = source.lstat().st_mode
    except OSError:
        return "there is no such file or directory"
    if Path(os.path.realpath(source)) != source:
        return "leads through a symbolic link: write the path that it leads to"
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return "not a file or directory: a socket or device lends access to other programs"
    return _system_refusal(source, environ) or _project_refusal(project, source, environ, others)


def _system_refusal(source: Path, environ: Mapping[str, str]) -> str:
    for home in homes(environ):
        if _is_in(home, source):
            return "contains a home directory"
        if home != Path("/") and _is_in(source, home) and _has_settings(source.parts[len(home.parts)]):
            return "in a hidden directory of your home, where programs keep settings and credentials"
    if _folded(source) in map(_folded, SHARED) or any(_is_in(source, place) for place in SYSTEM):
        return "belongs to this machine's system or one of its services"
    return ""


def _has_settings(name: str) -> bool:
    return name.startswith(".") or name.casefold() in SETTINGS


def _is_in(path: Path, folder: Path) -> bool:
    """Return whether a path is a folder or in it, also on a file system that ignores case."""
    return _folded(path).is_relative_to(_folded(folder))


def _folded(path: Path) -> Path:
    return Path(normalize("NFC", str(path)).casefold())


def _project_refusal(project: Path, source: Path, environ: Mapping[str, str], others: Sequence[Path]) -> str:
    if _is_in(source, project) or _is_in(project, source):
        return "overlaps the project, and would show it without its protections"
    own = (state_directory(environ), config_directory(environ), cache_directory(environ))
    places = [one for place in own if place for one in (place, Path(os.path.realpath(place)))]
    if any(_is_in(source, place) or _is_in(place, source) for place in places):
        return "contains files of agent-sandbox"
    if any(_is_in(source, other) or _is_in(other, source) for other in others):
        return "overlaps another project with a sandbox"
    if any(part.casefold() == ".devcontainer" for part in source.parts):
        return "contains the settings of a sandbox"
    return ""


def _target_refusal(path: str, target: str) -> str:
    parts = PurePosixPath(target).parts[1:]
    over_home = parts in (("home",), ("home", "dev")) or (parts[:2] == ("home", "dev") and not path.startswith("~/"))
    taken = not parts or parts[0].casefold() in IMAGE or over_home
    hidden = path.startswith("~/") and parts[2:3] and parts[2].startswith(".")
    return f"inside it would be at {target}, which the sandbox uses" if taken or hidden else ""


def _acted_on(source: Path) -> str:
    """Return the first path in a directory, or above it, that programs on this machine act on, or ""."""
    for place in (source, *source.parents):
        if place.name.startswith("."):
            return place.name
        if (place / "HEAD").is_file() and (place / "objects").is_dir():
            return "a git repository"
    if not source.is_dir():
        return ""
    rows = candidates(source, patience=Patience()).rows
    return next((one.path for one in rows if is_there(source / one.path)), "")


def own_masks(project: Path, paths: Iterable[str], protected: Sequence[Protected], *, at: Where) -> tuple[Mask, ...]:
    """Return the masks for these paths of the project; raise UserError with every problem."""
    found: list[Mask] = []
    problems: list[Problem] = []
    walls = [one.path.casefold() for one in protected if one.access is Access.READ and not one.path.startswith("/")]
    for number, asked in enumerate(paths):
        path = asked.removesuffix("/")
        if why := _mask_refusal(project, path, asked, walls):
            problems.append(Problem(where=at(number), what=f"`mask`: {asked}: {why}"))
        found.append(Mask(path=path, directory=asked.endswith("/") or (project / path).is_dir()))
    names = [mask.path.casefold() for mask in found]
    for number, mask in enumerate(found):
        within = [str(parent) for parent in PurePosixPath(mask.path.casefold()).parents]
        if names.count(mask.path.casefold()) > 1 or any(parent in names for parent in within):
            what = f"`mask`: {mask.path}: masked twice"
            problems.append(Problem(where=at(number), what=what, hint="keep one of them"))
    if problems:
        raise UserError(problems)
    return tuple(found)


def _mask_refusal(project: Path, path: str, asked: str, walls: Sequence[str]) -> str:
    lower = path.casefold()
    for wall in walls:
        if path == wall == DOTENV:  # the mask is read-only, too
            continue
        if lower == wall or lower.startswith(f"{wall}/") or wall.startswith(f"{lower}/"):
            return "overlaps a protected path, which stays visible"
    steps = [str(step) for step in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)) if str(step) != "."]
    there = [step for step in steps if is_there(project / step)]
    if any(not is_real(project, step) for step in there):
        return "leads through a symbolic link, or is not a file or directory"
    if len(there) < len(steps) - 1:
        return f"there is no directory {steps[len(there)]}: create it first"
    if asked.endswith("/") and path in there and not (project / path).is_dir():
        return "not a directory: remove the `/`"
    other = _other_case(project, steps[: len(there)])
    return f"the file system has it as {other}" if other else ""


def _other_case(project: Path, steps: Sequence[str]) -> str:
    """Return the first name that a directory spells differently, on a file system that ignores case."""
    for step in steps:
        place = project / step
        names = [one.name for one in place.parent.iterdir()]
        if place.name not in names:
            return next((name for name in names if name.casefold() == place.name.casefold()), "")
    return ""


def parents_of(masks: Iterable[Mask], protected: Sequence[Protected]) -> Iterator[Protected]:
    """Yield the directories above masks that are not mounted yet: moved away, they would take the mask with them."""
    mounted = {one.path for one in protected}
    above = {str(step) for mask in masks for step in PurePosixPath(mask.path).parents if step.parts}
    for path in sorted(above - mounted, key=lambda path: PurePosixPath(path).parts):
        yield Protected(path=path, access=Access.PINNED, why=PARENT)
