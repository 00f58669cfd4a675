"""Laws about files that we wrote: whatever bytes they hold now, reading them ends in a value or in a message."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent_sandbox.features.policy.commands.suggest import load_declined, save_declined
from agent_sandbox.features.policy.learning import Recording, load_recording, save_recording
from agent_sandbox.features.protect.snapshot import record, recorded
from agent_sandbox.features.review.changes import Baseline, Reviewed, load_baseline, save_baseline
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.stack.service_images import record_digests, recorded_digests
from agent_sandbox.features.watch.webhook_outcome import Failure, last_failure, save_failure
from agent_sandbox.host.agents import known_versions, remember_versions
from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.cached import load_cached
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of, new_clone, save_clone
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.exchange.quotas import Budgets
from agent_sandbox.proxy.reload.source_pin import SourcePin
from agent_sandbox.proxy.secrets.placeholder import load_placeholders, write_environment, write_git_settings
from agent_sandbox.proxy.secrets.store import Secret, listed, login_of, put_secret, put_sourced
from agent_sandbox.proxy.secrets.uses import Uses
from agent_sandbox.proxy.tls.authority import load_authority, now_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

# Values of JSON that a careless reader takes for a number, a text or a container.
ODD: tuple[object, ...] = (None, True, -1, float("1e999"), 10**400, "x", "\udcff", [], {}, [[]], {"x": 1})
KEY = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"password")
)
BYTES = (b"", b"\xff", b"\x80abc\n", b"\0" * 100, b"[" * 100_000, b"9" * 5_000, b"\xef\xbb\xbf{}", b"NaN", KEY)


def use_secret(path: Path) -> Uses:
    uses = Uses(path)
    uses.count([SecretUse(secret="a.b", kind="bearer", source="env", age=1.0)], "a.test", 200)
    uses.write()
    return uses


def use_budget(path: Path) -> Budgets:
    budgets = Budgets(path, clock=lambda: 10.0)
    budgets._windows = {"a requests 60": (1.0, 2)}
    budgets.write()
    return budgets


def put_expiring(folder: Path) -> None:
    (folder / "run" / "secrets").mkdir(parents=True)
    (folder / "secrets").mkdir()
    put_sourced(folder / "secrets", "a.b", ["a.test"], b"12345678", source="env", until=9e9, login={})


def expiring(folder: Path) -> list[bool]:
    return [one.expires_soon for one in listed(folder / "secrets") if isinstance(one, Secret)]


def pin(text: str) -> Act:
    """Return what starts a proxy whose policy file has this text, and ends it without asking it to stop."""

    def take(folder: Path) -> None:
        file, load = folder / "policy.yaml", partial(load_cached, layers=(), cache_dir=CacheDir(folder=folder / "c"))
        file.write_text(f"version: 1\ndomains: [{text}]\n")
        SourcePin(load=load, memory=folder / "pin", container="c", boot="b").take(file)

    return take


def trust(environ: Mapping[str, str], app: Path) -> None:
    open_store(environ).save(Standing(root=app, owner=None, stack_files=("a.yml",), files={"a.yml": "a: 1\n"}))


type Act = Callable[[Path], object]
type OnHost = Callable[[Path, dict[str, str]], object]


def on_host(
    write: Callable[[Path, dict[str, str]], object], read: Callable[[Path, dict[str, str]], object]
) -> tuple[Act, Act]:
    """Return both as functions of a folder: of the project in it, and of a state directory beside that."""

    def at(act: OnHost) -> Act:
        return lambda folder: act(folder / "app", {"XDG_STATE_HOME": str(folder / "state")})

    return at(write), at(read)


# By what the files are: what writes them in a folder, and what reads them again.
FILES: dict[str, tuple[Act, Act]] = {
    "placeholders": (lambda at: write_environment(at / "a", {"GH_TOKEN": "ghp_x"}),) * 2,
    "git settings": (lambda at: write_git_settings(at / "a", compile_policy([], {})),) * 2,
    "key of placeholders": (lambda at: load_placeholders(at / "a"),) * 2,
    "certificate authority": (lambda at: load_authority(at, now=now_utc()),) * 2,
    "budgets": (lambda at: use_budget(at / "a"), lambda at: Budgets(at / "a", clock=lambda: 10.0).write()),
    "uses of secrets": (lambda at: use_secret(at / "a"), lambda at: use_secret(at / "a")),
    "pinned policy": (pin("a.test"), pin("b.test")),
    "policy cache": (
        lambda at: CacheDir(folder=at / "c").put("a", b"data"),
        lambda at: CacheDir(folder=at / "c").get("a"),
    ),
    "secret": (
        lambda at: put_secret(at, "a.b", ["a.test"], b"12345678"),
        lambda at: [*listed(at), login_of(at, "a.b")],
    ),
    "secret that expires": (put_expiring, expiring),
    "clone": on_host(lambda app, e: save_clone(new_clone(app, "a", e, title="app")), clones_of),
    "trust": on_host(lambda app, e: trust(e, app), lambda app, e: (open_store(e).load(app), [*open_store(e)])),
    "recipes": on_host(
        lambda app, e: recipes_of(app, e).add(Recipe(name="a", hosts=("a.test",), source="env:A", ttl=1.0)),
        lambda app, e: recipes_of(app, e).load(),
    ),
    "declined rules": on_host(
        lambda app, e: save_declined(app / "p", {"a"}, e), lambda app, e: load_declined(app / "p", e)
    ),
    "recording": on_host(lambda app, e: save_recording(app, Recording(since="2026-01-01"), e), load_recording),
    "failure": on_host(lambda app, e: save_failure(app, Failure(why="x", time="2026-01-01"), e), last_failure),
    "digests": on_host(lambda app, e: record_digests(app, e, {"a": f"sha256:{'0' * 64}"}), recorded_digests),
    "snapshot": on_host(record, recorded),
    "review": on_host(
        lambda app, e: save_baseline(app, e, Baseline(files={"a": Reviewed(digest="0", executable=False, text="x")})),
        load_baseline,
    ),
    "versions": (lambda at: remember_versions(at, {"claude": "1.0.0"}), known_versions),
}


def written(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def with_odd(value: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """Yield the value with one part of it exchanged for an odd one, in every way."""
    yield from ODD
    keys = [*value] if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        for odd in with_odd(value[key]):
            other = value.copy()
            other[key] = odd
            yield other


def damaged(content: bytes) -> Iterator[bytes]:
    yield from BYTES
    yield content[: len(content) // 2]
    yield content + b"\xff"
    yield b"\xff" + content
    with suppress(ValueError):
        yield from (json.dumps(odd).encode().replace(b"Infinity", b"1e999") for odd in with_odd(json.loads(content)))


@pytest.mark.parametrize("what", FILES)
def test_any_bytes_in_a_file_that_we_wrote_are_read_as_damaged(tmp_path: Path, what: str) -> None:
    write, read = FILES[what]
    (tmp_path / "app" / ".devcontainer").mkdir(parents=True)
    (tmp_path / "app" / ".devcontainer" / "docker-compose.yml").write_text("services: {}\n")
    before = {*written(tmp_path)}
    write(tmp_path)
    files = [path for path in written(tmp_path) if path not in before and path.suffix != ".yaml"]
    assert files, what
    for file in files:
        content, mode = file.read_bytes(), file.stat().st_mode
        for number, data in enumerate(damaged(content)):
            file.write_bytes(data)
            os.utime(file, ns=(number, number))
            try:
                with suppress(UserError):
                    read(tmp_path)
            except BaseException as error:
                error.add_note(f"{file.name}: {data[:80]!r}")
                raise
        file.write_bytes(content)
        file.chmod(mode)
