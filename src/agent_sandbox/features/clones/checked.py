"""Check the objects of a clone in a temporary repository before they reach the project's repository.

That repository is new, empty and removed afterwards. It reads no settings but git's defaults, and sees the project's
objects, so nothing of the clone or of the project decides how its content is read.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from msgspec import Struct

from agent_sandbox.features.clones.host_repository import HostRepository, last_line
from agent_sandbox.host.process import MOST_BYTES, TIMED_OUT, Finished, capture
from agent_sandbox.problems import Problem, UserError

SECONDS = 900.0
# A small pack can describe an object of any size: git must not use the memory for it. Where there is no such limit, the
# first command fails.
MOST_MEMORY = 6 << 30
# Bytes of the names of all files of a commit: two million usual ones; of the trees of all fetched commits; and levels.
MOST_PATHS = 128 << 20
MOST_TREES = 256 << 20
MOST_LEVELS = 1000
HASH_BYTES = {"sha1": 20, "sha256": 32}
LIMITED = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
SETTINGS = (
    *("-c", "core.packedGitWindowSize=64m", "-c", "core.packedGitLimit=512m"),
    *("-c", "pack.threads=2", "-c", "core.commitGraph=false"),
)
INCOMPLETE = "its commits are incomplete: neither the clone nor the project has all their objects"
TOO_MANY = "a branch has more files than can be compared"
TOO_SLOW = f"checking its new commits takes longer than {int(SECONDS) // 60} minutes"
DAMAGED = "its objects did not pass git's checks: {}"
NOT_TAKEN = "nothing was fetched; run `git fsck` in the clone with agent-sandbox shell to see more"
DIRECTORY = (b"40000", b"040000")


class Tree(Struct, frozen=True):
    """A tree object: how many files it has, the length of their names, and each subdirectory's name length and tree."""

    files: int = 0
    names: int = 0
    folders: tuple[tuple[int, str], ...] = ()


class Size(Struct, frozen=True):
    """How many paths are below a tree, and the length of the list of them."""

    paths: int
    length: int


def parse_tree(data: bytes, hash_bytes: int) -> Tree:
    """Parse a tree object; raise ValueError if it is cut off."""
    at, files, names = 0, 0, 0
    folders: list[tuple[int, str]] = []
    while at < len(data):
        nul = data.index(b"\0", at)
        mode, _, name = data[at:nul].partition(b" ")
        at = nul + 1 + hash_bytes
        if at > len(data):
            raise ValueError("the last hash is cut off")
        if mode in DIRECTORY:
            folders.append((len(name) + 1, data[nul + 1 : at].hex()))
        else:
            files += 1
            names += len(name) + 1
    return Tree(files, names, tuple(folders))


def measure(root: str, trees: Mapping[str, Tree], known: dict[str, Size]) -> Size:
    """Return how long a list of all paths of a tree would be, without making it; a tree that is missing is empty.

    A few small trees can describe more paths than any disk has, and git collects all of them in memory. Here, each
    counts once, however often it is used: `known` has the sizes that were measured before, and gets those of all below.
    """
    waiting = [root]
    while waiting:
        name = waiting[-1]
        tree = trees.get(name, Tree())
        if below := [folder for _, folder in tree.folders if folder not in known]:
            waiting += below
            continue
        sizes = [(length, known[folder]) for length, folder in tree.folders]
        known[name] = Size(
            tree.files + sum(size.paths for _, size in sizes),
            tree.names + sum(size.length + size.paths * length for length, size in sizes),
        )
        waiting.pop()
    return known[root]


class CheckedObjects(Struct, frozen=True, kw_only=True):
    """A temporary repository with the objects of a clone and those of the project.

    `until` is the deadline of all its commands together, on the monotonic clock.
    """

    folder: Path
    repository: HostRepository
    where: str
    until: float

    def run(
        self, *words: str, stdin: bytes | IO[bytes] = b"", most: int = MOST_BYTES, into: IO[bytes] | None = None
    ) -> Finished:
        """Run git in it, without any settings or variables of the user."""
        given = {**_environment(self.folder), "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self.repository.objects)}
        variables = (f"{key}={value}" for key, value in given.items())
        argv = ("env", "-i", *variables, "sh", "-c", LIMITED, str(MOST_MEMORY >> 10), "git", *SETTINGS, *words)
        left = max(0.0, self.until - time.monotonic())
        done = capture(argv, cwd=self.folder, timeout=left, stdin=stdin, most=most, into=into, errors="surrogateescape")
        if done.code == TIMED_OUT:
            raise UserError([self._problem(TOO_SLOW)])
        return done

    def add(self, pack: IO[bytes], most: int) -> None:
        """Add a pack; raise UserError if git's checks find a fault in any of its objects."""
        pack.seek(0)
        done = self.run("index-pack", "--stdin", "--fsck-objects", f"--max-input-size={most}", stdin=pack)
        if done.code:
            raise UserError([self._problem(DAMAGED.format(last_line(done.err)))])

    def require_complete(self, commits: Sequence[str], known: Sequence[str]) -> None:
        """Raise UserError unless each is a commit, and all that they need beyond the known ones is there."""
        asked = "".join(f"{commit}\n" for commit in commits).encode("ascii")
        kinds = self.run("cat-file", "--batch-check=%(objecttype)", stdin=asked).out.split("\n")[:-1]
        if kinds != ["commit"] * len(commits):
            raise UserError([self._problem("a branch does not point to a commit, or the clone did not send it")])
        revisions = asked + "".join(f"^{commit}\n" for commit in known).encode("ascii")
        # A partial repository may lack files that are unchanged.
        without = ("--filter=blob:none",) if self.repository.partial else ()
        done = self.run("rev-list", "--objects", "--quiet", *without, "--stdin", stdin=revisions)
        if done.code:
            raise UserError([self._problem(INCOMPLETE)])
        self._require_few_paths(dict.fromkeys(commits))

    def _require_few_paths(self, commits: Iterable[str]) -> None:
        """Raise UserError if a commit has too many paths. Each tree is read once, however many commits have it."""
        trees: dict[str, Tree] = {}
        asked = "".join(f"{commit}^{{tree}}\n" for commit in commits).encode("ascii")
        done = self.run("cat-file", "--batch-check=%(objectname)", stdin=asked)
        if done.code:
            raise UserError([self._problem(INCOMPLETE)])
        roots = {*done.out.split()}
        wanted, left = roots, MOST_TREES
        for _ in range(MOST_LEVELS):
            if not wanted:
                break
            left = self._read_trees(wanted, trees, left)
            wanted = {folder for tree in wanted for _, folder in trees[tree].folders} - trees.keys()
        known: dict[str, Size] = {}
        if wanted or any(measure(root, trees, known).length > MOST_PATHS for root in roots):
            raise UserError([self._problem(TOO_MANY)])

    def _read_trees(self, names: Iterable[str], trees: dict[str, Tree], most: int) -> int:
        """Add these trees; return how many bytes may still be read."""
        asked = "".join(f"{name}\n" for name in names).encode("ascii")
        with TemporaryFile(prefix="agent-sandbox-") as file:
            done = self.run("cat-file", "--batch", stdin=asked, into=file, most=most)
            if done.code:
                raise UserError([self._problem(TOO_MANY)])
            left = most - file.tell()
            file.seek(0)
            for line in file:
                name, kind, *size = line.decode("ascii").split()
                data = file.read(int(size[0]) + 1)[:-1] if size else b""
                try:
                    trees[name] = parse_tree(data, HASH_BYTES[self.repository.kind]) if kind == "tree" else Tree()
                except ValueError as error:
                    raise UserError([self._problem(DAMAGED.format("a tree is cut off"))]) from error
        return left

    def count(self, commit: str, before: Sequence[str]) -> int:
        """Return the number of commits that this one has and none of the others."""
        done = self.run("rev-list", "--count", commit, "--not", *before)
        return int(done.out) if done.code == 0 and done.out.strip().isdecimal() else 0

    def has(self, commits: Sequence[str]) -> frozenset[str]:
        """Return those of these commits that are there."""
        asked = "".join(f"{commit}\n" for commit in commits).encode("ascii")
        lines = self.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).out.splitlines()
        return frozenset(name for name, _, kind in (line.partition(" ") for line in lines) if kind == "commit")

    def packs(self) -> tuple[Path, ...]:
        """Return the packs that were added."""
        return tuple(sorted((self.folder / "objects" / "pack").glob("*.pack")))

    def _problem(self, what: str) -> Problem:
        return Problem(where=self.where, what=what, hint=NOT_TAKEN)


@contextmanager
def checked_objects(repository: HostRepository, where: str) -> Iterator[CheckedObjects]:
    """Make the repository, and remove it afterwards. `where` is the place that problems name."""
    with TemporaryDirectory(prefix="agent-sandbox-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve() / "checked.git"
        until = time.monotonic() + SECONDS
        made = CheckedObjects(folder=folder, repository=repository, where=where, until=until)
        folder.mkdir(mode=0o700)
        done = made.run("init", "--bare", "--quiet", "--template=", f"--object-format={repository.kind}")
        if done.code:
            raise UserError([Problem(where=str(folder), what=f"git init failed: {last_line(done.err)}")])
        if repository.shallow:
            (folder / "shallow").write_text(repository.shallow, "ascii")
        yield made


def _environment(folder: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_DIR": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _quoted(path: Path) -> str:
    """Return a path as git reads it in a list: `:` would separate two paths."""
    text = str(path)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
