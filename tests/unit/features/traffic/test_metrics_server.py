import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from agent_sandbox.features.traffic import metrics_server as subject
from agent_sandbox.features.traffic.metrics_server import MetricsServer


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """Serve on loopback."""
    with MetricsServer(("127.0.0.1", 0), lambda: b"a 1.0\n") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: MetricsServer, path: str = "/metrics", host: str = "", method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    found = (answer.status, answer.read())
    connection.close()
    return found


def test_serves_metrics_at_one_path_only(server: MetricsServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/metrics"
    assert get(server) == (200, b"a 1.0\n")
    assert get(server, "/metrics?x=1") == (200, b"a 1.0\n")
    assert get(server, host=f"localhost:{server.port}")[0] == 200
    assert get(server, "/")[0] == 404
    assert get(server, method="POST")[0] == 501


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "127.0.0.1", "localhost"])
def test_rejects_requests_with_another_host_header(server: MetricsServer, host: str) -> None:
    status, body = get(server, host=host)
    assert (status, b"a 1.0" in body) == (403, False)


def test_restricts_no_host_names_on_an_address_other_than_loopback() -> None:
    with MetricsServer(("0.0.0.0", 0), bytes) as server:  # noqa: S104 - as a user could
        assert server.names == frozenset()


def test_too_many_connections_are_closed(server: MetricsServer) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(subject.MOST)]
    for one in held:
        one.sendall(b"GET /met")
    late = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    assert late.recv(1) == b""
    late.close()
    held[0].sendall(b"rics HTTP/1.0\r\nHost: localhost:%d\r\n\r\n" % server.port)
    assert b"a 1.0" in held[0].makefile("rb").read()
    for one in held:
        one.close()
