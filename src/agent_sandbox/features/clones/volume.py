"""The commands that work on a clone's volume, each in a new container without a network.

They work while the stack runs and while it does not. What they print was decided by the agent.
"""

from collections.abc import Iterable, Mapping
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct

from agent_sandbox.engines.place import Helper, Store
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.clones.host_repository import HEADS, HostRepository, Start, last_line, write_pack
from agent_sandbox.host.process import TIMED_OUT, TOO_MUCH, Finished
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.size_text import size_text
from agent_sandbox.stack.containers import CLONE, WORKSPACE

SECONDS = 900.0
# The agent can configure a git filter that ignores SIGINT. Without `timeout`, the container would outlive this process.
TIMEOUT = ("timeout", "--kill-after=2")
GRACE_SECONDS = 10.0
# Of the list of branches and of changed files.
MOST_LISTED = 4 << 20
LIST_SECONDS = 120.0

# Arguments: the hash, the size of the references, of the list of shallow commits, and of the settings; the branch to
# check out. Stdin has these three and a pack.
FILL = r"""
set -eu; t=${TMPDIR:-/tmp}
export GIT_LFS_SKIP_SMUDGE=1
find . -mindepth 1 -delete
git init --quiet --object-format="$1" .
head -c "$2" >"$t/references"
head -c "$3" >.git/shallow
head -c "$4" >"$t/settings"
[ -s .git/shallow ] || rm .git/shallow
cat "$t/settings" >>.git/config
git index-pack --stdin $5 >"$t/pack"
git update-ref --stdin <"$t/references"
git symbolic-ref HEAD "$6"
git reset --hard --quiet
"""

# Prints the branches, the HEAD if it is detached and has commits that no branch has, a commit that only tags, notes or
# other worktrees have and that stdin does not exclude, the checked-out branch and the stashes; then a NUL, and each
# changed, untracked and ignored file.
LIST = r"""
export GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1
git --git-dir=.git for-each-ref --count=1001 --format='%(objectname) %(refname)' refs/heads || exit 3
head=
if ! git --git-dir=.git symbolic-ref --quiet HEAD >/dev/null; then
  unnamed=$(git --git-dir=.git rev-list --max-count=1 HEAD --not --branches --tags --remotes --)
  [ -z "$unnamed" ] || head=$(git --git-dir=.git rev-parse HEAD)
  [ -z "$head" ] || printf '%s HEAD\n' "$head"
fi
others=$(git --git-dir=.git rev-list --max-count=1 --ignore-missing --exclude=refs/stash --exclude='refs/replace/*' \
  --all --not --branches --remotes $head --stdin) || others=unknown
[ -z "$others" ] || printf '%s others\n' "$others"
printf 'HEAD %s\n' "$(git --git-dir=.git symbolic-ref --quiet HEAD)"
git --git-dir=.git for-each-ref --format='%(objectname) %(refname)' refs/stash
git --git-dir=.git rev-list --walk-reflogs --max-count=1001 refs/stash -- 2>/dev/null | sed 's|$| refs/stash|'
printf '\0'
exec git --git-dir=.git --work-tree=. -c core.fsmonitor=false -c core.hooksPath=/dev/null status --porcelain=v1 -z \
  --untracked-files=normal --ignored=traditional --no-renames --ignore-submodules=none
"""

# Stdin lists the commits that are wanted, then those that the host has.
PACK = r"""
set -eu; t=${TMPDIR:-/tmp}
export GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1
while read -r sign commit; do
  case $sign in
    want) echo "$commit" ;;
    have) [ "$(git --git-dir=.git cat-file -t "$commit" 2>/dev/null)" != commit ] || echo "^$commit" ;;
  esac
done >"$t/revisions"
exec git --git-dir=.git pack-objects --revs --stdout --quiet --delta-base-offset <"$t/revisions"
"""


class CloneVolume(Struct, frozen=True, kw_only=True):
    """The volume of one clone; `project` is the clone's own stack."""

    driver: Driver
    project: Project
    image: str

    def fill(self, repository: HostRepository, start: Start, branch: str, settings: Mapping[str, str]) -> None:
        """Put a clone of the repository into the volume, in place of whatever is there, and check out a branch."""
        refs = {**start.references, f"{HEADS}{branch}": start.commit}
        parts = [
            "".join(f"create {name} {commit}\n" for name, commit in refs.items()),
            repository.shallow,
            "".join(_setting(key, value) for key, value in settings.items()),
        ]
        encoded = [part.encode("utf-8", "surrogateescape") for part in parts]
        with TemporaryFile(prefix="agent-sandbox-") as file:
            file.write(b"".join(encoded))
            write_pack(repository, start, file)
            file.seek(0)
            sizes = (str(len(part)) for part in encoded)
            promisor = "--promisor" if repository.partial else ""
            self._run(FILL, repository.kind, *sizes, promisor, f"{HEADS}{branch}", stdin=file, writes=True)

    def list(self, known: Iterable[str] = ()) -> tuple[bytes, bool]:
        """Return what LIST prints, and whether that is all. `known` are objects that the host has."""
        stdin = "".join(f"^{one}\n" for one in known).encode("ascii")
        with TemporaryFile(prefix="agent-sandbox-") as file:
            done = self._try(LIST, stdin=stdin, into=file, most=MOST_LISTED, seconds=LIST_SECONDS)
            if done.code not in (0, TIMED_OUT, TOO_MUCH) and file.tell() == 0:
                raise UserError([self._problem("cannot be read", done)])
            file.seek(0)
            return file.read(MOST_LISTED), done.code == 0

    def pack(self, wanted: tuple[str, ...], known: tuple[str, ...], into: IO[bytes], *, most: int) -> None:
        """Write a pack with the wanted commits and what they need, without what the known ones have."""
        lines = (*(f"want {one}" for one in wanted), *(f"have {one}" for one in known))
        stdin = "".join(f"{line}\n" for line in lines).encode("ascii")
        done = self._try(PACK, stdin=stdin, into=into, most=most, seconds=SECONDS)
        if done.code == TOO_MUCH:
            what = f"its new commits are larger than {size_text(most)}"
            hint = "look for large files with agent-sandbox exec --path; agent-sandbox fetch --most 8g allows more"
            raise UserError([Problem(where=self.project.name, what=what, hint=hint)])
        if done.code:
            raise UserError([self._problem("its commits cannot be read", done)])

    def _run(self, script: str, *words: str, stdin: IO[bytes], writes: bool) -> None:
        done = self._try(script, *words, stdin=stdin, writes=writes, seconds=SECONDS)
        if done.code:
            raise UserError([self._problem("the clone could not be made", done)])

    def _try(  # noqa: PLR0913 - each is an option of its own
        self,
        script: str,
        *words: str,
        stdin: bytes | IO[bytes] = b"",
        writes: bool = False,
        into: IO[bytes] | None = None,
        most: int = MOST_LISTED,
        seconds: float,
    ) -> Finished:
        argv = (*TIMEOUT, f"{seconds + GRACE_SECONDS:g}", "/bin/sh", "-c", script, "agent-sandbox", *words)
        project, owner = self.project, self.project.owner
        store = Store(volume=f"{project.name}_{CLONE}", at=WORKSPACE, writes=writes)
        helper = Helper(project=project, image=self.image, stores=(store,), memory="4g", directory=WORKSPACE)
        command = self.driver.spawn(helper, *argv, stdin=True, user=f"{owner.uid}:{owner.gid}")
        return command.capture(timeout=seconds, stdin=stdin, into=into, most=most)

    def _problem(self, what: str, done: Finished) -> Problem:
        name, said = self.project.name, last_line(done.err or done.out)
        return self.driver.explain(done.err, doing=name, otherwise=lambda: Problem(where=name, what=f"{what}: {said}"))


def _setting(key: str, value: str) -> str:
    """Return the lines of a git configuration file for one setting."""
    section, _, name = key.rpartition(".")
    head, _, rest = section.partition(".")
    quoted = rest.replace("\\", "\\\\").replace('"', '\\"')
    title = f'[{head} "{quoted}"]' if rest else f"[{head}]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{title}\n\t{name} = "{escaped}"\n'
