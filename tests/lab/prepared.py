"""What the tests on the engine need and what takes minutes: images and downloads, made outside of their time limits.

Every such module needs the images of a stack; what else it needs, its function `prepare` makes. `scripts/test` starts
this program in the background, beside tests that need no engine. Before the first test of a module, its worker waits
for what the program is making, and makes what is still missing: what exists, the engine knows by its label.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import MappingProxyType

import pytest

from engine import ROOT, CommandError, agent_sandbox, proxy_image, run
from real_stacks import OWN_IMAGE, trust
from turns import MARKS, PREPARED, STACKS

LABEL = "agent-sandbox-test.digest"


def prepare_item(item: pytest.Item) -> CommandError | None:
    """Make what a test needs, once in each process; return the error if that failed."""
    name = item.path.stem
    failed = made(STACKS, prepare_stacks)
    if name in PREPARED and not failed:
        assert isinstance(item, pytest.Function)
        failed = made(name, item.module.prepare)
    return failed


@cache
def made(name: str, prepare: Callable[[], object]) -> CommandError | None:
    """Make what a module needs, unless another process is making it: then wait for that."""
    with (Path(gettempdir()) / f"agent-sandbox-test-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            prepare()
        except CommandError as error:
            return error
    return None


def prepare_stacks() -> None:
    """Build the images of the stacks that most tests run, also the one of `use_own_image`."""
    proxy_image()
    build_project("claude", files={".devcontainer/sandbox.yaml": OWN_IMAGE})


def build_project(*init: str, files: Mapping[str, str] = MappingProxyType({}), owner: int = 1000) -> None:
    """Build the images of a project with these files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "app"
        path.mkdir()
        os.chown(path, owner, owner)
        own = {"XDG_STATE_HOME": folder}
        agent_sandbox("init", *init, cwd=path, env=own)
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        trust(path, {**os.environ, **own})
        agent_sandbox("build", cwd=path, env=own)


def build_image(name: str, folder: Path, base: str) -> str:
    """Build an image for the tests on top of one of ours; skip it if the folder and the base have not changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    recipe = sha256(run("docker", "image", "inspect", "--format={{.Id}}", base).stdout.encode())
    for path in files:
        recipe.update(f"{path.relative_to(folder)} {path.stat().st_mode:o}\n".encode() + path.read_bytes())
    label = recipe.hexdigest()
    found = run("docker", "image", "inspect", f'--format={{{{index .Config.Labels "{LABEL}"}}}}', name, check=False)
    if found.stdout.strip() != label:
        ca = os.environ.get("AGENT_SANDBOX_EXTRA_CA")
        secret = (f"--secret=id=extra_ca,src={ca}",) if ca else ()
        labelled = (f"--label={LABEL}={label}", f"--build-arg=BASE={base}", "--tag", name)
        run("docker", "build", "--quiet", *secret, *labelled, folder)
    return name


def main(modules: Sequence[str] = PREPARED) -> int:
    """Prepare all modules in order; return 1 if one failed, which its tests then report."""
    MARKS.mkdir(parents=True, exist_ok=True)
    for mark in MARKS.iterdir():
        mark.unlink()
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    failed = False
    for name in (STACKS, *modules):
        error = made(name, prepare_stacks if name == STACKS else import_module(name).prepare)
        if error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
        else:
            (MARKS / name).touch()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
