import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import dns.message
import pytest
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy import run as subject
from agent_sandbox.proxy.audit.audit_log import CHECKED_NAME, AuditLog
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.front.dns_sockets import Answer
from agent_sandbox.proxy.front.listeners import Opened
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.reloader import Reloader
from agent_sandbox.proxy.reload.source_pin import HELD_BACK
from agent_sandbox.proxy.run import BODIES, PARSER, control_verbs, run, warm_up
from agent_sandbox.proxy.settings import Entrances, Settings
from agent_sandbox.proxy.upstream.overrides import Override
from policy_texts import PolicyOf

ASKING = "domains: [{host: a.test, rules: [{graphql: {query: [viewer]}}]}]"

MCP = "domains: [{host: a.test, rules: [{mcp: {tools: [search]}}]}]"
POLICY = Policy.deny_all("x")


class Server:
    """A fake listening socket: a unit test opens none."""

    def __init__(self, name: tuple[str, int]) -> None:
        self.sockets = [self]
        self.name = name

    def getsockname(self) -> tuple[str, int]:
        return self.name

    def close(self) -> None:
        """Do nothing."""


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[None]:
    """Run the proxy from when it is ready until it is stopped."""
    serving = asyncio.create_task(run(settings, Limits()))
    while not settings.control.exists():  # noqa: ASYNC110 - nothing tells when
        await asyncio.sleep(0.01)
    yield
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "policy.yaml").write_text("version: 1\n")

    async def listen(*_: object) -> Server:
        return Server(("127.0.0.1", 8080))

    monkeypatch.setattr(subject, "listen", listen)
    monkeypatch.setattr(subject, "load_offers", lambda *_, **__: {})
    override = Override(host="a.test", port=443, address="127.0.0.1", to=8443)
    return Settings(
        policy=tmp_path / "policy.yaml", listen=("127.0.0.1", 0), state=tmp_path / "state", overrides=(override,)
    )


async def connected(settings: Settings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the control socket as soon as it listens; it exists earlier."""
    while True:
        try:
            return await asyncio.open_unix_connection(settings.control)
        except (FileNotFoundError, ConnectionRefusedError):
            await asyncio.sleep(0.01)


async def test_prints_its_addresses_when_ready_and_stops_on_sigterm(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    serving = asyncio.create_task(run(settings, Limits()))
    reader, writer = await connected(settings)
    writer.write(b'{"verb": "status"}\n')
    status = json.loads(await reader.read())
    writer.close()
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    said = capfd.readouterr()
    assert json.loads(said.out.splitlines()[0]) == {
        "listening": "127.0.0.1:8080",
        "ca": str(settings.certificate),
        "control": str(settings.control),
        "log": str(settings.log),
    }
    warning = "WARNING: --resolve connects a.test:443 to 127.0.0.1:8443 without checks; only for tests\n"
    assert said.err == warning
    assert (status["listening"], status["connections"]) == ("127.0.0.1:8080", 0)
    assert status["log"] == {"dropped": 0, "error": ""}
    assert datetime.fromisoformat(status["started"]) <= datetime.fromisoformat(status["clock"]) <= datetime.now(UTC)


async def test_dns_queries_are_answered_by_the_policy(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    responses: list[dns.message.Message] = []

    async def open_entrances(_: Entrances, __: object, answer: Answer) -> Opened:
        query = dns.message.make_query("a.test", "A").to_wire()
        responses.extend(dns.message.from_wire(answer(query, "10.0.0.2") or b"") for _ in range(2))
        return Opened(listening={})

    monkeypatch.setattr(subject, "open_entrances", open_entrances)
    settings.policy.write_text("version: 1\ndomains: [a.test]\n")
    async with running(settings):
        reader, writer = await connected(settings)
        writer.write(b'{"verb": "status"}\n')
        await reader.read()  # a connection that nobody has accepted when the proxy ends stays open
        writer.close()
    assert [response.answer[0][0].to_text() for response in responses] == ["127.0.0.1"] * 2


@pytest.mark.parametrize("name", ["", ".devcontainer/policy.yaml"])
async def test_pins_the_folder_of_a_mounted_policy(settings: Settings, name: str) -> None:
    async with running(replace(settings, policy_name=name)):
        pass
    assert settings.folder.exists() is bool(name)


async def test_reports_an_invalid_policy_at_the_start(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    settings.policy.write_text("version: 7\n")
    serving = asyncio.create_task(run(settings, Limits()))
    while not settings.control.exists():  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    await serving
    assert capfd.readouterr().err.startswith(f"everything is denied: {settings.policy}:1:")


async def test_sighup_reloads_the_policy_and_prints_the_result(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    told = ""
    async with running(settings):
        for text, verdict in (
            ("version: 1\ndomains: [a.test]\n", "policy reloaded: 1 rules added, 0 removed"),
            ("version: 7\n", f"policy not reloaded, the file has problems: {settings.policy}:1:"),
        ):
            settings.policy.write_text(text)
            os.kill(os.getpid(), signal.SIGHUP)
            while verdict not in told:
                await asyncio.sleep(0.01)
                told += capfd.readouterr().out


def test_reports_a_missing_upstream_ca_file(settings: Settings, tmp_path: Path) -> None:
    missing = Settings(
        policy=settings.policy, listen=settings.listen, state=settings.state, upstream_ca=tmp_path / "none.pem"
    )
    with pytest.raises(UserError) as caught:
        asyncio.run(run(missing, Limits()))
    assert str(caught.value).startswith(f"--upstream-ca {tmp_path}/none.pem: ")


KEYED = """version: 1
domains:
  - host: a.test
    transform:
      request:
        headers:
          X-API-Key: {secret: key, transform: {type: raw}, client_shim: {kind: env, name: A_KEY, prefix: sk-}}
"""


async def test_writes_the_placeholders_of_the_policy_in_force(settings: Settings) -> None:
    settings.policy.write_text(KEYED)
    async with running(settings):
        first = settings.environment.read_text()
        settings.policy.write_text("version: 1\n")
        reader, writer = await connected(settings)
        writer.write(b'{"verb": "reload"}\n')
        assert json.loads(await reader.read())["ok"]
        writer.close()
    assert first.startswith('export A_KEY="${A_KEY:-sk-')
    assert settings.environment.read_text() == ""


async def test_reports_placeholders_that_cannot_be_written_and_continues(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    settings.environment.mkdir(parents=True)
    async with running(settings):
        pass
    assert "cannot write the placeholders of secrets: Is a directory\n" in capfd.readouterr().err


async def test_counts_are_written_while_the_proxy_runs_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "WRITE_SECONDS", 0)
    writes: list[str] = []
    twice = asyncio.Event()

    def write() -> None:
        writes.append("counts")
        if len(writes) == 2:
            twice.set()

    writing = asyncio.create_task(subject._each_second(write))
    await twice.wait()
    written = len(writes)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert len(writes) == written + 1


async def test_records_that_the_policy_from_before_stays_in_force(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = replace(settings, policy_name=".devcontainer/policy.yaml")
    pin = subject._pin(settings)
    assert pin
    pin.take(settings.policy)
    settings.policy.write_text("version: 1\ndomains: [a.test]\n")
    async with running(settings):
        pass
    assert HELD_BACK in capfd.readouterr().out


@pytest.mark.parametrize(
    ("text", "imported"), [(ASKING, {BODIES, PARSER}), (MCP, {BODIES}), ("domains: [a.test]", set())]
)
async def test_the_parser_is_imported_before_it_is_needed_and_only_where_it_may_be(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch, text: str, imported: set[str]
) -> None:
    current = policy(text)
    for name in (BODIES, PARSER):
        monkeypatch.delitem(sys.modules, name, raising=False)
    await warm_up(lambda: current, after=0)
    assert {BODIES, PARSER} & sys.modules.keys() == imported


class Desk:
    """The verbs of a store whose file a test can make invalid."""

    def __init__(self) -> None:
        self.bad = False
        self.lines: list[bytes] = []
        self.now = 0.0
        self.audit_log = AuditLog([self.lines.append], clock=lambda: 0.0, monotonic=lambda: self.now)
        store = PolicyStore(Path("p.yaml"), load=self.load, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        reloader = Reloader(store, review=nothing_is_open, record=self.audit_log.record)
        self.verbs = control_verbs(store, self.audit_log, reloader, lambda: {"listening": "127.0.0.1:1"})

    def load(self, _: Path) -> Policy:
        if self.bad:
            raise UserError([Problem(where="p.yaml:1", what="bad")])
        return POLICY


async def test_status_describes_policy_process_and_requests() -> None:
    assert await Desk().verbs["status"]({}) == {
        "policy": {
            "file": "p.yaml",
            "digest": POLICY.digest,
            "valid": True,
            "loaded": "2026-01-01T00:00:00Z",
            "problems_since": None,
            "problems": [],
            "upstream": [],
        },
        "listening": "127.0.0.1:1",
        "requests": {"allowed": 0, "denied": 0, "starts": 0},
        "failed": {"count": 0, "last": []},
        "hints": {"count": 0, "last": []},
    }


async def test_reload_is_answered_by_the_reloader() -> None:
    desk = Desk()
    assert (await desk.verbs["reload"]({}))["ok"] is True
    desk.bad = True
    refused = {"ok": False, "valid": True, "digest": POLICY.digest, "problems": ["p.yaml:1: bad"]}
    assert await desk.verbs["reload"]({}) == refused


async def nothing_is_open(_: object) -> int:
    return 0


async def test_denials_returns_the_requested_number_or_20() -> None:
    desk = Desk()
    for number in range(30):
        desk.audit_log.record(AuditRecord(event=Event.REQUEST, port=number))
    counts = []
    for count in (3, "many", True):
        answer = await desk.verbs["denials"]({"count": count})
        denials = answer["denials"]
        assert isinstance(denials, list)
        counts.append(len(denials))
    assert counts == [3, 20, 20]


async def test_verify_sets_denials_apart_for_a_bounded_time() -> None:
    desk = Desk()
    refused = AuditRecord(event=Event.DNS, host=CHECKED_NAME)
    for seconds, counted in ((1, 0), (0, 1), ("x", 2), (None, 3)):
        assert await desk.verbs["verify"]({"seconds": seconds}) == {"ok": True}
        desk.audit_log.record(refused)
        assert desk.audit_log.counts == {"allowed": 0, "denied": counted, "starts": 1}
    assert len(desk.lines) == 4
    assert len(desk.audit_log.denials(9)) == 3


async def test_verify_lasts_at_most_two_minutes() -> None:
    desk = Desk()
    await desk.verbs["verify"]({"seconds": 1 << 40})
    for desk.now in (119.0, 120.0):
        desk.audit_log.record(AuditRecord(event=Event.DNS, host=CHECKED_NAME))
    assert desk.audit_log.counts == {"allowed": 0, "denied": 1, "starts": 1}
