"""The project's repository on the host machine: what a clone starts with, and where its branches go.

The agent of the project's own sandbox may have written parts of it, so git runs no program that its settings name.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.host.files import read_bytes, read_text
from agent_sandbox.host.git.ask import NO_FETCH, NO_PROGRAMS, NO_SUBSTITUTES, NO_SUBSTITUTES_EITHER, ask_git
from agent_sandbox.host.process import MOST_BYTES, Finished, capture
from agent_sandbox.problems import Problem, UserError

SECONDS = 900.0
# Of all files together whose times changed.
MOST_COMPARED = 64 << 20
MOST_INDEX = 1 << 30
MOST_REFERENCES = 20_000
# What a clone gets: not what was fetched from other clones, and no stash.
SHARED = ("refs/heads", "refs/tags", "refs/remotes")
FETCHED = "refs/remotes/box/"
HEADS = "refs/heads/"
PROMISOR = r"^(remote\..*\.promisor|extensions\.partialclone)$"


class HostRepository(Struct, frozen=True, kw_only=True):
    """A repository whose work tree is the project.

    `objects` is its object directory, `kind` its hash. `shallow` lists the commits at which a shallow repository ends.
    In a `partial` one, objects may be missing. With `reftable`, references are not in files of their own.
    """

    git: Path
    objects: Path
    kind: str
    shallow: str
    partial: bool
    reftable: bool = False

    def run(
        self,
        *words: str,
        stdin: bytes | IO[bytes] = b"",
        into: IO[bytes] | None = None,
        most: int = MOST_BYTES,
    ) -> Finished:
        """Run git with nothing that the repository's settings name."""
        return capture(
            ("git", f"--git-dir={self.git}", *NO_SUBSTITUTES_EITHER, *NO_PROGRAMS, *words),
            cwd=self.git,
            timeout=SECONDS,
            stdin=stdin,
            environment={**NO_FETCH, **NO_SUBSTITUTES, "LC_ALL": "C"},
            errors="surrogateescape",
            into=into,
            most=most,
        )

    def output(self, *words: str, stdin: bytes = b"") -> str:
        """Return what git prints; raise UserError if it fails."""
        done = self.run(*words, stdin=stdin)
        if done.code:
            raise UserError([Problem(where=str(self.git), what=f"git {words[0]} failed: {done.err.strip()}")])
        return done.out

    def references(self, *below: str) -> dict[str, str]:
        """Return the objects of these references by name, without those that only name another one."""
        shape = "--format=%(objectname) %(symref) %(refname)"
        lines = (line.split(" ") for line in self.output("for-each-ref", shape, *below).split("\n")[:-1])
        return {name: commit for commit, symbolic, name in lines if not symbolic}


def fetched_clones(repository: HostRepository) -> frozenset[str]:
    """Return the names of the clones whose branches were fetched into this repository."""
    found = repository.references(FETCHED.removesuffix("/"))
    return frozenset(name.removeprefix(FETCHED).partition("/")[0] for name in found)


def open_repository(project: Path) -> HostRepository:
    """Return the project's repository; raise UserError if a clone cannot be made from it."""
    words = ("--git-common-dir", "--git-path", "objects", "--show-object-format", "--is-shallow-repository")
    done = ask_git("rev-parse", "--path-format=absolute", "--show-toplevel", *words, cwd=project)
    lines = done.out.splitlines()
    if done.code or len(lines) != 5:
        what = "not a git repository that can be cloned"
        said = done.err.partition("\n")[0].removeprefix("fatal: ")
        trust = "if you trust its owner: git config --global --add safe.directory DIRECTORY"
        hint = trust if "ownership" in said else "git init makes one here"
        raise UserError([Problem(where=str(project), what=f"{what}: {said}" if said else what, hint=hint)])
    top, common, objects, kind, shallow = lines
    if Path(os.path.realpath(top)) != project.resolve():
        what = f"only a whole repository can be cloned, and this directory is only a part of {top}"
        raise UserError([Problem(where=str(project), what=what, hint="run agent-sandbox init there")])
    repository = HostRepository(git=Path(common), objects=Path(objects), kind=kind, shallow="", partial=False)
    ends = read_text(Path(common), "shallow") or "" if shallow == "true" else ""
    partial = bool(repository.run("config", "--get-regexp", PROMISOR).out)
    reftable = repository.run("config", "--get", "extensions.refStorage").out.strip() == "reftable"
    return replace(repository, shallow=ends, partial=partial, reftable=reftable)


class Start(Struct, frozen=True, kw_only=True):
    """What a clone starts with: the references, the commit that is checked out, and its branch, "" without one."""

    references: Mapping[str, str]
    commit: str
    branch: str


def start_of(repository: HostRepository, project: Path) -> Start:
    """Return what a clone of the project gets now; raise UserError if there is no commit yet."""
    done = ask_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=project)
    if done.code:
        hint = "make a commit first: a clone contains only what is committed"
        raise UserError([Problem(where=str(project), what="the repository has no commit yet", hint=hint)])
    symbolic = ask_git("symbolic-ref", "--quiet", "HEAD", cwd=project).out.strip()
    found = repository.references(*SHARED)
    shared = {name: commit for name, commit in found.items() if not name.startswith(FETCHED)}
    if len(shared) > MOST_REFERENCES:
        what = f"the repository has {len(shared)} references; a clone gets {MOST_REFERENCES} at most"
        raise UserError([Problem(where=str(project), what=what, hint="delete branches and tags that you do not need")])
    branch = symbolic.removeprefix(HEADS) if symbolic.startswith(HEADS) else ""
    return Start(references=shared, commit=done.out.strip(), branch=branch)


def uncommitted_in(project: Path, kind: str) -> tuple[str, ...]:
    """Return the project's files that are in no commit; `kind` is the repository's hash.

    Git compares times and sizes, because a comparison of contents would run the filters that the settings name. A file
    with another time but the very content of the index is left out.
    """

    def asked(*words: str, index: str = "") -> list[str]:
        environment = {"GIT_INDEX_FILE": index} if index else {}
        return ask_git(*NO_PROGRAMS, *words, "-z", cwd=project, environment=environment).out.split("\0")[:-1]

    staged = asked("diff-index", "--cached", "--name-only", "HEAD")
    with _index_copy(project) as index:
        raw = asked("diff-files", "--raw", "--no-abbrev", "--ignore-submodules", index=index)
    new = asked("ls-files", "--others", "--exclude-standard", "--directory")
    return tuple(dict.fromkeys((*staged, *_changed(project, raw, kind), *new)))


@contextmanager
def _index_copy(project: Path) -> Iterator[str]:
    """Copy the index to a temporary file: git compares the contents of files that are as new as their index."""
    path = Path(ask_git("rev-parse", "--path-format=absolute", "--git-path", "index", cwd=project).out.strip())
    with NamedTemporaryFile(prefix="agent-sandbox-") as file:
        with suppress(OSError):  # not a regular file
            file.write(read_bytes(path.parent, path.name, limit=MOST_INDEX) or b"")
        file.flush()
        later = time.time() + 60
        os.utime(file.name, (later, later))
        yield file.name


def _changed(project: Path, raw: Sequence[str], kind: str) -> Iterator[str]:
    """Yield the paths whose contents differ, from pairs of a line `:MODE MODE HASH HASH STATUS` and a path."""
    left = MOST_COMPARED
    for line, path in zip(raw[::2], raw[1::2], strict=False):
        before, now, blob, _, status = line.split(" ")
        if status == "M" and before.removeprefix(":") == now and left > 0:
            with suppress(OSError, ValueError):  # gone meanwhile, or a name that is not UTF-8
                data = read_bytes(project, path, limit=left) or b""
                left -= len(data)
                if left > 0 and hashlib.new(kind, b"blob %d\0" % len(data) + data).hexdigest() == blob:
                    continue
        yield path


def write_pack(repository: HostRepository, start: Start, into: IO[bytes]) -> None:
    """Write a pack with everything that these references lead to; raise UserError if objects are missing."""
    wanted = "\n".join(dict.fromkeys((*start.references.values(), start.commit)))
    missing = ("--missing=allow-promisor",) if repository.partial else ()
    words = ("pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset", *missing)
    done = repository.run(*words, stdin=f"{wanted}\n".encode(), into=into, most=1 << 40)
    if done.code:
        what = f"git could not read all objects: {last_line(done.err)}"
        raise UserError([Problem(where=str(repository.git), what=what, hint="git fsck shows what is wrong")])


def last_line(said: str) -> str:
    """Return the last line that git printed, without its prefix."""
    lines = [line for line in said.splitlines() if line.strip()] or ["it printed nothing"]
    return re.sub(r"^(fatal|error): ", "", lines[-1])
