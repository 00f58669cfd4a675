"""An error, a cancellation or a timeout in any hook of any addon lets nothing through: invariant I2, row Y10.

The same holds for any function between the hooks and the wire, before or after its work: for mitmproxy, those that map
flows to exchanges and back; for the lane, all that serve a request.
The tests find hooks and functions by themselves. A new one must be reached by a request in this file.
"""

import contextlib
import importlib
import pkgutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import isfunction
from pathlib import Path
from types import ModuleType

import pytest

import agent_sandbox.proxy
from agent_sandbox.proxy.connection import upstream
from agent_sandbox.proxy.exchange import steps
from agent_sandbox.proxy.lane import body, relay, serving
from agent_sandbox.proxy.mitm import flows
from capture_server import ok
from http2client import ask_over_http2
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_answer, read_head
from websocket_client import echo, frame, handshake

POLICY = """\
version: 1
domains:
  - host: allowed.test
    rules:
      - {path: {prefix: /plain}}
      - {path: {exact: /ws}}
      - {methods: [POST], path: {exact: /graphql}, graphql: {query: [viewer]}}
"""
# Each hook and function raises the error in the file, if the file names it. If it says EACH, all write down their names
# instead.
TAMPERED = """
import asyncio, importlib, inspect, pathlib, sys
from agent_sandbox.proxy import run
table = run.hook_table
def fall_over(name):
    wanted, _, error = pathlib.Path("{file}").read_text().partition(" ")
    if wanted in ("EACH", name):
        with pathlib.Path("{file}.reached").open("a") as reached:
            print(name, file=reached)
    if wanted == name:
        raise eval(error)
def tamper(function, name):
    def tampered(*args, **kwargs):
        fall_over(name)
        result = function(*args, **kwargs)
        fall_over(name + ":after")
        return result
    async def tampered_wait(*args, **kwargs):
        fall_over(name)
        result = await function(*args, **kwargs)
        fall_over(name + ":after")
        return result
    return tampered_wait if inspect.iscoroutinefunction(function) else tampered
def tampered_hook(function):
    return tamper(function, f"{type(function.__self__).__name__}.{function.__name__}")
run.hook_table = lambda *addons: {hook: tuple(map(tampered_hook, found)) for hook, found in table(*addons).items()}
for place, name in {functions}:
    place = importlib.import_module(place)
    owner, _, attribute = name.rpartition(".")
    if owner:
        owner = getattr(place, owner)
        setattr(owner, attribute, tamper(getattr(owner, attribute), name))
        continue
    original = getattr(place, name)
    for module in [*sys.modules.values()]:
        if module.__name__.startswith("agent_sandbox.proxy.") and vars(module).get(name) is original:
            setattr(module, name, tamper(original, name))
"""
# Functions of the lane that also run after the exchange, or that only unit tests reach.
LEFT_OUT = {
    *("_aborted_on_error", "_without_expect", "chunk", "Body._read", "Steps.fault", "Upstream.fits"),
    *(
        "Relay.run",
        "Relay._denied",
        "Relay._discard_body",
        "Relay._pass",
        "Relay._receive",
        "Relay._return",
        "Relay._safe",
        "Relay._send",
    ),
    *("Relay._send_all", "Relay._be_fair", "Relay._switch", "Serving.serve", "Serving.drop_upstream", "Serving._end"),
    *("Serving._forward", "Serving._forward_again", "Serving._serve", "Serving._wait_for_person"),
}
# If one of these fails, no request is sent.
ON_THE_WAY_THERE = {
    *("FlowHooks.requestheaders", "FlowHooks._call"),
    *("read_request", "write_decision", "write_request"),
    *(
        "from_pool",
        "secrets_of",
        "Serving._open",
        "Serving._open_connection",
        "Serving._decide",
        "Steps.decide",
        "Steps.run",
        "reach",
        "_server",
        "_dial",
        "_secure",
    ),
}
# These run when the allowed exchange is already complete.
WHEN_ALL_HAS_PASSED = ("response", "websocket_end", "_release", "to_pool", "rest", "drop")
# Called before the end of a response, and when a WebSocket is over.
WHEN_FRAMES_HAVE_PASSED = ("_stop_sending",)
ERRORS = ("ValueError('x')", "asyncio.CancelledError()", "TimeoutError()")
BAD_CHUNK = get("/plain", "allowed.test", "Transfer-Encoding: chunked", method="POST") + b"no chunk\r\n"
QUESTION = b'{"query": "{viewer{login}}"}'
JSON = ("content-type", "application/json")


def hooks() -> list[str]:
    """Return the names of all hooks."""
    walked = pkgutil.walk_packages(agent_sandbox.proxy.__path__, "agent_sandbox.proxy.")
    modules = [importlib.import_module(module.name) for module in walked if not module.name.endswith("__main__")]
    found = {
        f"{addon.__name__}.{name}"
        for module in modules
        for addon in vars(module).values()
        if isinstance(addon, type) and addon.__module__ == module.__name__
        for name, function in vars(addon).items()
        if getattr(function, "is_hook", False)
    }
    return sorted(found)


def mapping() -> dict[str, str]:
    """Return the modules of the functions between the hooks and the wire, by function name."""
    modules = (steps, serving, relay, upstream, body, flows)
    return dict(sorted((name, module.__name__) for module in modules for name in functions_of(module)))


def functions_of(module: ModuleType) -> Iterator[str]:
    """Yield the names of a module's functions, and of the methods of its classes."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__ or name in LEFT_OUT:
            continue
        if isfunction(value):
            yield name
        elif isinstance(value, type):
            methods = (f"{name}.{method}" for method, what in vars(value).items() if isfunction(what))
            yield from (method for method in methods if "__" not in method and method not in LEFT_OUT)


@dataclass
class Sabotage:
    """A proxy with an injected error."""

    pair: Pair
    file: Path
    on_its_way: dict[str, set[str]] = field(default_factory=dict)  # what each request reaches

    def explore(self) -> None:
        """Learn what each request reaches. An error anywhere else cannot change its result."""
        for what, (tried, _) in ASKED.items():
            with self.fault("EACH", ""):
                tried(self.pair)
                time.sleep(0.2)  # some run after the client has left
            self.on_its_way[what] = self.reached()

    def leading_to(self, name: str) -> dict[str, Callable[[Pair], bool]]:
        """Return the requests that reach a hook or a function."""
        return {what: tried for what, (tried, _) in ASKED.items() if name in self.on_its_way[what]}

    @contextlib.contextmanager
    def fault(self, name: str, error: str) -> Iterator[None]:
        self.reached()  # the hooks leave marks, too
        self.file.write_text(f"{name} {error}")
        try:
            yield
        finally:
            self.file.write_text("")

    def forget(self) -> None:
        """Drop what the server got, and the records so far, up to the last that `faults` waited for."""
        self.pair.server.forget()
        self.pair.proxy.lines.clear()

    def reached(self) -> set[str]:
        """Return the names that were written down, and delete them."""
        mark = self.file.with_name(f"{self.file.name}.reached")
        reached = {*mark.read_text().splitlines()} if mark.exists() else set()
        mark.unlink(missing_ok=True)
        return reached

    def faults(self) -> list[str]:
        """Return the recorded errors, including those that are still being written."""
        self.pair.proxy.say(get("http://evil.test/last", "evil.test"))
        self.pair.proxy.line(host="evil.test")
        return [line["reason"] for line in self.pair.proxy.lines if line["event"] == "fault"]


@pytest.fixture(scope="module")
def sabotage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sabotage]:
    """Start the proxy once. It must keep working after each error."""
    folder = tmp_path_factory.mktemp("hooks")
    file = folder / "fault"
    file.write_text("")

    def half(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    def leave(stream: socket.socket, _: bytes) -> None:
        stream.sendall(ok(b"whole"))

    functions = repr([(place, name) for name, place in mapping().items()])
    tampered = TAMPERED.replace("{file}", str(file)).replace("{functions}", functions)
    with start_pair(folder, POLICY, sabotage=tampered) as pair:
        pair.server.answers |= {"/plain": ok(b"whole"), "/graphql": ok(b"whole"), "/plain/half": half, "/ws": echo}
        pair.server.answers |= {"/plain/leave": leave, "/plain/odd": b"HTTP/1.1 200 OK\nX: y\n\n"}
        sabotage = Sabotage(pair, file)
        sabotage.explore()
        yield sabotage


def ask(pair: Pair, request: bytes) -> bool:
    with contextlib.suppress(OSError, AssertionError):
        return pair.proxy.ask("allowed.test", request).endswith(b"whole")
    return False


def keep(pair: Pair, path: str) -> bool:
    """Send a request without asking to close the connection."""
    with contextlib.suppress(OSError, AssertionError), pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get(path, "allowed.test").replace(b"Connection: close\r\n", b""))
        return read_answer(stream) == (200, b"whole")
    return False


def upload(path: str) -> bytes:
    fields = ("Content-Type: application/json", f"Content-Length: {len(QUESTION)}")
    return get(path, "allowed.test", *fields, method="POST") + QUESTION


def chat(pair: Pair) -> bool:
    with contextlib.suppress(OSError, AssertionError), pair.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        if not read_head(stream).startswith(b"HTTP/1.1 101"):
            return False
        stream.sendall(frame(b"hello", masked=True))
        return stream.recv(100).endswith(b"hello")
    return False


def distrust(pair: Pair) -> bool:
    with contextlib.suppress(OSError), pair.proxy.tunnel("allowed.test") as connection:
        ssl.create_default_context().wrap_socket(connection, server_hostname="allowed.test")
    return False


def over_http2(pair: Pair, path: str, *more: tuple[str, str], body: bytes | None = None) -> bool:
    method = "GET" if body is None else "POST"
    with contextlib.suppress(OSError, AssertionError):
        return ask_over_http2(pair.proxy, "allowed.test", path, *more, method=method, body=body) == ("200", b"whole")
    return False


# Requests, and whether each succeeds without an error.
ASKED: dict[str, tuple[Callable[[Pair], bool], bool]] = {
    "a request": (lambda pair: ask(pair, get("/plain", "allowed.test")), True),
    "an upload": (lambda pair: ask(pair, upload("/plain")), True),
    "a body that is read": (lambda pair: ask(pair, upload("/graphql")), True),
    "a WebSocket": (chat, True),
    "a body that cannot be read": (lambda pair: ask(pair, BAD_CHUNK), False),
    "half an answer": (lambda pair: ask(pair, get("/plain/half", "allowed.test")), False),
    "a kept connection": (lambda pair: keep(pair, "/plain"), True),
    "a server that leaves": (lambda pair: keep(pair, "/plain/leave"), True),
    "a denied request": (lambda pair: ask(pair, get("/denied", "allowed.test")), False),
    "no request": (lambda pair: ask(pair, b"GET /plain\n\n"), False),
    "TLS with another authority": (distrust, False),
    "a request over HTTP/2": (lambda pair: over_http2(pair, "/plain"), True),
    "an upload over HTTP/2": (lambda pair: over_http2(pair, "/plain", body=QUESTION), True),
    "a body over HTTP/2 that is read": (lambda pair: over_http2(pair, "/graphql", JSON, body=QUESTION), True),
    "half an answer over HTTP/2": (lambda pair: over_http2(pair, "/plain/half"), False),
    "a malformed answer over HTTP/2": (lambda pair: over_http2(pair, "/plain/odd"), False),
    "a denied request over HTTP/2": (lambda pair: over_http2(pair, "/denied"), False),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("hook", hooks())
def test_no_request_succeeds_if_a_hook_raises(sabotage: Sabotage, hook: str, error: str) -> None:
    reached, name = False, hook.partition(".")[2]
    for what, tried in sabotage.leading_to(hook).items():
        sabotage.forget()
        with sabotage.fault(hook, error):
            through = tried(sabotage.pair)
            time.sleep(0.03)  # some run after the client has left
        fell = f"error in hook {name}" in sabotage.faults()
        assert not (through and fell and name not in WHEN_ALL_HAS_PASSED), what
        reached = reached or fell
        lines = [request.line for request in sabotage.pair.server.requests]
        assert not any("denied" in line for line in lines)
    assert reached, f"nothing that is asked here leads to {hook}"


@pytest.mark.parametrize("error", ERRORS[:2])
@pytest.mark.parametrize("when", ["", ":after"])
@pytest.mark.parametrize("name", mapping())
def test_no_request_succeeds_if_a_function_between_hooks_and_wire_raises(
    sabotage: Sabotage, name: str, when: str, error: str
) -> None:
    reached, function = False, name.rpartition(".")[2]
    for what, tried in sabotage.leading_to(name + when).items():
        sabotage.forget()
        with sabotage.fault(name + when, error):
            through = tried(sabotage.pair)
            time.sleep(0.03)  # some run after the client has left
        fell = name + when in sabotage.reached()
        passed = WHEN_ALL_HAS_PASSED + (WHEN_FRAMES_HAVE_PASSED if what == "a WebSocket" else ())
        assert not (through and fell and function not in passed), what
        reached = reached or fell
        lines = [request.line for request in sabotage.pair.server.requests]
        assert not any("denied" in line for line in lines)
        if fell and name in ON_THE_WAY_THERE:
            assert lines == [], what
    assert reached, f"nothing that is asked here leads to {name}"


def test_all_requests_give_the_expected_result_without_an_error(sabotage: Sabotage) -> None:
    sabotage.pair.forget()
    assert {what: tried(sabotage.pair) for what, (tried, _) in ASKED.items()} == {
        what: wanted for what, (_, wanted) in ASKED.items()
    }
