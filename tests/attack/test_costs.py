"""Costly requests must not delay other requests or a reload that narrows the policy."""

import contextlib
import threading
from collections.abc import Iterator

import pytest

from proxy_stand import ProxyProcess, get

CONNECTIONS = 20
NUMBERS = range(20)
DENIED = "".join(
    f"  - {{query: {{exact: {{n{number}: x}}}}}}\n"
    f"  - {{headers: {{x-list: value {number}}}}}\n"
    f"  - {{path: {{glob: '/**/a*{number}/**/b*/**'}}}}\n"
    for number in NUMBERS
)
ALLOWED = "".join(f"  - {{path: {{prefix: /p/{number}}}}}\n" for number in range(1_000))
POLICY = f"""version: 1
domains:
- narrowed.test
- host: allowed.test
  rules:
{ALLOWED}
deny:
- host: allowed.test
  rules:
{DENIED}
"""
NARROWER = POLICY.replace("- narrowed.test\n", "")
ENCODED = "&".join(f"%61%62%63%64{number}=%C3%A9" for number in range(499))
FLOODS = {
    "parameters without end": (f"/x?{'&' * 32_000}", (), 400),
    "parameters behind semicolons": (f"/x?{'a;' * 16_000}", (), 400),
    "as many parameters as may be": (f"/x?{ENCODED}", (), 403),
    "encoded bytes": (f"/x?{'%61' * 10_000}", (), 403),
    "segments without end": ("/a7" * 10_000, (), 400),
    "as many segments as may be": ("/a7" * 100, (), 403),
    "a long path": (f"/{'%40' * 10_000}", (), 400),
    "spaces before a control character": ("/x", (f"X-Spaces: {' ' * 60_000}\0",), 400),
    "lists without end": ("/x", (f"X-List: {'a,' * 30_000}",), 400),
    "as many elements as may be": ("/x", (f"X-List: {'a,' * 990}",), 403),
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with ProxyProcess(tmp_path_factory.mktemp("costs"), POLICY) as started:
        yield started


@contextlib.contextmanager
def flooded(proxy: ProxyProcess, request: bytes) -> Iterator[None]:
    """Let many clients send the same request repeatedly."""

    def flood() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), proxy.connect(seconds=60) as connection:
                connection.sendall(request)
                while connection.recv(65_536):
                    pass
                answered.set()

    over, answered = threading.Event(), threading.Event()
    clients = [threading.Thread(target=flood) for _ in range(CONNECTIONS)]
    for client in clients:
        client.start()
    try:
        assert answered.wait(60)
        yield
    finally:
        over.set()
        for client in clients:
            client.join()


def reload(proxy: ProxyProcess, policy: str) -> None:
    """Reload another policy, and check that little else was done until then."""
    proxy.policy_file.write_text(policy)
    with proxy.little_work():
        assert proxy.ask_control("reload", seconds=60)["ok"] is True


@pytest.mark.parametrize("what", FLOODS)
def test_costly_requests_do_not_delay_other_clients_or_a_reload(proxy: ProxyProcess, what: str) -> None:
    target, fields, status = FLOODS[what]
    request = get(f"http://allowed.test{target}", "allowed.test", *fields)
    assert proxy.say(request, seconds=60).startswith(b"HTTP/1.1 %d " % status)
    with flooded(proxy, request):
        for _ in range(3):
            with proxy.little_work():
                proxy.say(get("http://evil.test/", "evil.test"), seconds=60)
        reload(proxy, NARROWER)
        answer = proxy.say(get("http://narrowed.test/", "narrowed.test"), seconds=60)
    assert answer.startswith(b"HTTP/1.1 403 ")
    reload(proxy, POLICY)


def test_names_the_exceeded_limit_in_the_response_and_the_audit_record(proxy: ProxyProcess) -> None:
    proxy.forget()
    answer = proxy.say(get(f"http://allowed.test/many?{'&' * 500}", "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"reason": "ambiguous: the query has more than 500 parameters"' in answer
    line = proxy.line(path="/many")
    assert (line["decision"], line["reason"]) == ("deny", "ambiguous: the query has more than 500 parameters")
