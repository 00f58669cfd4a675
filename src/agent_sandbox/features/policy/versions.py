"""Read a version of the policy from a file or a git commit."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_sandbox.features.policy.layers import layers_here
from agent_sandbox.host.git.ask import ask_git
from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policyfile import load_layer, parse_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.loading import with_files_beside
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import MAX_BYTES, Read, read_policy
from agent_sandbox.problems import Problem, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The text of a policy, its name, and the file of which it is a version.

    `read` reads services and lists beside that file in the same version.
    """

    name: str
    content: bytes
    file: Path
    read: Read = field(default=read_policy, repr=False, compare=False)


def read_version(word: str, *, find: Callable[[], Path]) -> Version:
    """Return the version that `word` names: a file, git's `REF:PATH`, or a REF of the file that `find` returns."""
    if os.path.exists(word):
        _require_no_commit(word)
        return Version(name=word, content=read_policy(Path(word)), file=Path(word))
    if ":" in word:
        return _of_git(word, word, cwd=Path.cwd(), file=Path(word.partition(":")[2]))
    return _committed(word, find())


def read_committed(file: Path) -> Version:
    """Return the policy in HEAD, or an empty one if HEAD has none."""
    try:
        return _committed("HEAD", file)
    except UserError:
        if not _git_knows(file.parent, "--git-dir"):
            raise
        commits = _git_knows(file.parent, "--verify", "--quiet", "HEAD")
        return Version(name=f"HEAD has no {file}" if commits else "nothing committed yet", content=b"", file=file)


def read_file(file: Path) -> Version:
    """Return the current policy."""
    return Version(name=str(file), content=read_policy(file), file=file)


def load_version(version: Version, environ: Mapping[str, str]) -> Policy:
    """Compile the version with this machine's layers and the files beside it.

    Files that its commit lacks are read from the working tree.
    """
    services = services_beside(version.file, read=version.read)
    text = decode_policy(version.content, file=version.name)
    layer = parse_layer(text, name=PROJECT, file=version.name, shown=version.name, services=services)
    others = [load_layer(one, services=services) for one in layers_here(environ, beside=version.file)]
    whole = with_files_beside(layer, version.file, text=text, where=version.name, read=version.read)
    return compile_policy([*others, whole], services)


def _require_no_commit(word: str) -> None:
    """Reject a file with the name of a commit: its author could choose what a change is compared with."""
    if not word.startswith("-") and _git_knows(Path(), "--verify", "--quiet", "--end-of-options", word):
        hint = f"write {shlex.quote(f'./{word}')} for the file; move it away to mean the commit"
        raise UserError([Problem(where=word, what="is both a file here and a git commit", hint=hint)])


def _committed(reference: str, file: Path) -> Version:
    return _of_git(f"{reference}:./{file.name}", f"{reference}:{file}", cwd=file.parent, file=file)


def _of_git(name: str, shown: str, *, cwd: Path, file: Path) -> Version:
    if name.startswith("-"):
        raise _unknown(shown, "a git reference cannot begin with `-`")
    try:
        said = ask_git("cat-file", "blob", name, cwd=cwd)
    except OSError as error:
        raise _unknown(shown, f"git cannot be run: {error.strerror}") from error
    if said.code != 0:
        raise _unknown(shown, said.err.strip().removeprefix("fatal: ") or f"git exited with code {said.code}")
    read = _reading(name.removesuffix(file.name), cwd=cwd, folder=file.parent)
    return Version(name=shown, content=said.out.encode(), file=file, read=read)


def _reading(base: str, *, cwd: Path, folder: Path) -> Read:
    def read(path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
        if path.is_relative_to(folder):
            said = ask_git("cat-file", "blob", f"{base}{path.relative_to(folder)}", cwd=cwd)
            if said.code == 0 and len(content := said.out.encode()) <= limit:
                return content
        return read_policy(path, limit=limit, own_folder=own_folder)

    return read


def _git_knows(folder: Path, *asked: str) -> bool:
    try:
        return ask_git("rev-parse", *asked, cwd=folder).code == 0
    except OSError:
        return False


def _unknown(shown: str, what: str) -> UserError:
    hint = "name a file, a reference such as `main` or `HEAD~1`, or `REF:PATH`"
    return UserError([Problem(where=shown, what=what, hint=hint)])
