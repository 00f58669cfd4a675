"""Projects with repositories of every kind, made by git from a seed, and the files that git reports to act on."""

import os
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

NAMES = (
    *("fe", "00", "de", "ad", "FE", "objects", "refs", "hooks", "HEAD", "logs", "info", "modules", "worktrees"),
    *(
        "a b",
        "a$b",
        "$$HOME",
        "ö",
        "公",
        "x.git",
        "it's",
        'say "x"',
        "#",
        "*",
        "[x]",
        "a:b",
        ".hidden",
        "{{x}}",
        "config",
    ),
)
# A zero-width space, a no-break space, a turn of direction, a tag, a byte that is not UTF-8.
UNSEEN = ("z\u200b", "n\xa0o", "r\u202el", "t\U000e0041", "b\udcff")
CONDITIONS = ("include", 'includeIf "gitdir:/elsewhere/"', 'includeIf "onbranch:x"', 'includeIf "gitdir:**"')
SHARED = "objects/ab/shared"
HEAD, COMMIT = "ref: refs/heads/main\n", "1" * 40
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TEMPLATE_DIR": ""}
WHO = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*")


def ask(folder: Path, *words: str) -> str | None:
    """Return git's output in a directory, "" if it refuses."""
    argv = ("git", *WHO, "-C", str(folder), *words)
    done = subprocess.run(argv, capture_output=True, env={**os.environ, **QUIET}, check=False)
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def tell(folder: Path, *words: str) -> None:
    """Have git do something, and fail where it does not."""
    if ask(folder, *words) is None:
        raise AssertionError((folder, words))


@dataclass(slots=True)
class World:
    """A project in the making."""

    root: Path
    random: Random
    tops: list[Path] = field(default_factory=list)  # directories with a `.git`
    repositories: list[Path] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def name(self) -> str:
        """Return a name, most often one that can be printed."""
        return self.random.choice(UNSEEN if self.random.random() < 0.04 else NAMES)

    def new(self) -> Path:
        """Return a directory that is not there yet, at some depth; it is not made."""
        base = self.random.choice([self.root, self.root, *self.tops])
        parts = [self.name() for _ in range(self.random.randint(1, 3))]
        path = base.joinpath(*parts)
        blocked = any(not part.is_dir() for part in (path, *path.parents) if os.path.lexists(part))
        return base / f"n{next(self.numbers)}" / self.name() if blocked or path.exists() else path

    def add(self, top: Path, repository: Path | None = None) -> Path:
        """Make a repository with its files at `top`; its own directory may lie elsewhere."""
        top.parent.mkdir(parents=True, exist_ok=True)
        if repository is not None:
            repository.parent.mkdir(parents=True, exist_ok=True)
        elsewhere = () if repository is None else (f"--separate-git-dir={repository}",)
        tell(top.parent, "init", "--quiet", "--template=", *elsewhere, str(top))
        self.tops.append(top)
        self.repositories.append(repository or top / ".git")
        return top


def submodule(world: World) -> None:
    """Make a submodule as git leaves one, known by some of the ways in which git knows it."""
    number = world.random.randrange(len(world.tops))
    top, repository = world.tops[number], world.repositories[number]
    name = "/".join(world.name() for _ in range(world.random.randint(1, 2)))
    path, module = world.new(), repository / "modules" / name
    if module.exists() or any(map(type(top).is_file, module.parents)) or not path.is_relative_to(top):
        return
    world.add(path, module)
    relative = str(path.relative_to(top))
    if world.random.random() < 0.5:
        tell(top, "config", "--file", str(top / ".gitmodules"), f"submodule.{name}.path", relative)
    if world.random.random() < 0.5:
        tell(module, f"--git-dir={module}", "config", "core.worktree", os.path.relpath(path, module))
    if world.random.random() < 0.5:
        ask(top, "update-index", "--add", "--cacheinfo", f"160000,{COMMIT},{relative}")


def worktree(world: World) -> None:
    """Make a worktree, in the project or beside it."""
    number = world.random.randrange(len(world.tops))
    top = world.tops[number]
    if ask(top, "rev-parse", "HEAD") is None:
        tell(top, "commit", "--quiet", "--allow-empty", "--message=x")
    place = world.random.choice([world.new(), world.root.parent / f"{world.root.name}-{next(world.numbers)}"])
    if ask(top, "worktree", "add", "--quiet", "--detach", str(place)) is not None and place.is_relative_to(world.root):
        found = ask(place, "rev-parse", "--absolute-git-dir")
        if found is not None and world.random.random() < 0.5:
            world.tops.append(place)
            world.repositories.append(type(place)(found.removesuffix("\n")))


def nested(world: World) -> None:
    """Make a repository somewhere among the files."""
    world.add(world.new())


def apart(world: World) -> None:
    """Make a repository whose git directory is elsewhere in the project."""
    world.add(world.new(), world.new() / "store")


def linked(world: World) -> None:
    """Make a repository that a link called `.git` leads to."""
    top, store = world.new(), world.new() / "store"
    world.add(top, store)
    (top / ".git").unlink()
    (top / ".git").symlink_to(world.random.choice((str(store), os.path.relpath(store, top))))


def forwarded(world: World) -> None:
    """Make a repository that a link called `.git` leads to by way of a file, which may end at a null byte."""
    top, store = world.new(), world.new() / "store"
    world.add(top, store)
    (top / ".git").unlink()
    pointer = world.root / f"pointer {next(world.numbers)}"
    junk = world.random.choice((b"", b"\n", b"\0/x\n"))
    pointer.write_bytes(b"gitdir: " + os.fsencode(os.path.relpath(store, top)) + junk)
    (top / ".git").symlink_to(os.path.relpath(pointer, top))


def headless(world: World) -> None:
    """Make a repository that shares a directory without a HEAD, where its hooks are."""
    top, common = world.new(), world.new() / "common"
    git = world.add(top) / ".git"
    for name in ("objects", "refs", "config"):
        common.mkdir(parents=True, exist_ok=True)
        (git / name).rename(common / name)
    (common / "hooks").mkdir()
    (git / "commondir").write_bytes(os.fsencode(os.path.relpath(common, git)) + b"\n")


def bare(world: World) -> None:
    """Make a bare repository."""
    place = world.new()
    place.parent.mkdir(parents=True, exist_ok=True)
    tell(place.parent, "init", "--quiet", "--bare", "--template=", str(place))


def settings(world: World) -> None:
    """Have settings include others, which may not be there, or name a directory of hooks."""
    repository = world.random.choice(world.repositories)
    file = repository / world.random.choice(("config", "config", "config.worktree"))
    for _ in range(world.random.randint(1, 3)):
        target = world.root / f"settings {next(world.numbers)}"
        with file.open("a", encoding="utf-8", errors="surrogateescape") as opened:
            written = world.random.choice((str(target), os.path.relpath(target, file.parent)))
            opened.write(f'\n[{world.random.choice(CONDITIONS)}]\n\tpath = "{_quoted(written)}"\n')
        if world.random.random() < 0.8:
            target.write_text("")
            file = target
    hooks = world.root / f"hooks {next(world.numbers)}"
    hooks.mkdir()
    with file.open("a", encoding="utf-8", errors="surrogateescape") as opened:
        opened.write(f'\n[core]\n\thooksPath = "{_quoted(str(hooks))}"\n[extensions]\n\tworktreeConfig = true\n')


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def alternates(world: World) -> None:
    """Have a repository borrow the objects of one that only this names."""
    shared = world.random.choice(world.repositories) / SHARED
    if not shared.exists():
        shared.parent.mkdir(parents=True, exist_ok=True)
        tell(world.root, "init", "--quiet", "--bare", "--template=", str(shared))
    objects = world.random.choice(world.repositories) / "objects"
    (objects / "info").mkdir(parents=True, exist_ok=True)
    with (objects / "info" / "alternates").open("a", encoding="utf-8", errors="surrogateescape") as opened:
        opened.write(f"{os.path.relpath(shared / 'objects', objects)}\n")


def disguise(world: World) -> None:
    """Make a directory that holds repositories look like one."""
    place = world.random.choice([world.root, world.repositories[0] / "modules"])
    place.mkdir(exist_ok=True)
    for name in ("objects", "refs"):
        (place / name).mkdir(exist_ok=True)
    if not os.path.lexists(place / "HEAD"):
        (place / "HEAD").write_text(HEAD)


def crowd(world: World) -> None:
    """Make more directories than a small search looks into."""
    for number in range(40):
        (world.root / f"0{number}" / "0").mkdir(parents=True, exist_ok=True)


PARTS: tuple[Callable[[World], None], ...] = (
    *(submodule, submodule, worktree, nested, apart, linked, forwarded, headless, bare),
    *(settings, settings, alternates, disguise, crowd),
)


def make_world(root: Path, random: Random) -> World:
    """Make a project; its parts are chosen by the number."""
    world = World(root=root, random=random)
    world.add(root)
    for part in random.choices(PARTS, k=random.randint(1, 4)):
        part(world)
    return world


def acted_on(root: Path, *, but: Collection[str] = ()) -> set[str]:
    """Return the existing paths that git acts on. Asks git in each directory that may be a repository, except `but`.

    The names of a repository's own files, and that a `.git` file points elsewhere, are from git's documentation.
    """
    found: set[Path] = set()
    for folder, folders, files in os.walk(root):
        place = root / folder
        if os.path.relpath(place, root) in but:
            folders.clear()
            continue
        if ".git" in (*folders, *files) or "HEAD" in files:
            found |= _acted_on(place)
    there = {path for path in found if os.path.lexists(path)}
    return {os.path.relpath(path, root) for path in there if path.is_relative_to(root)}


def _acted_on(place: Path) -> set[Path]:
    path = type(place)
    said = ask(place, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--git-path", "hooks")
    if said is None:
        return set()
    own, common, hooks = map(path, said.split("\n")[:3])
    files = {place / ".git"} if (place / ".git").is_file() else set()
    files |= {own / name for name in ("commondir", "config.worktree") if own.is_relative_to(place) or own != common}
    files |= {common / "config", common / "remotes", common / "branches", hooks}
    words = iter((ask(place, "config", "--list", "--show-origin", "-z") or "").split("\0"))
    for origin, setting in zip(words, words, strict=False):
        file = place / origin.removeprefix("file:")
        key, _, value = setting.partition("\n")
        if origin.startswith("file:"):
            files.add(path(os.path.normpath(file)))
        if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
            files.add(path(os.path.normpath(file.parent / value)))
    return files
