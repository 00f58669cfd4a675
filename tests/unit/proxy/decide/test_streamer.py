import gzip

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange, Outcome, open_exchange
from agent_sandbox.proxy.exchange.tool_list import MAX_ANSWER, MAX_HELD, ToolListError
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.secrets.unpacking import UnpackError
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import Fields, RequestHead, ResponseHead
from packing import whole
from table_tests import each

JSON = (b"Content-Type", b"application/json")
TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)


def answered(status: int = 200, *fields: tuple[bytes, bytes], effect: Effect = Effect.ALLOW) -> Exchange:
    exchange = open_exchange(RequestHead(b"GET", b"/x", b"HTTP/1.1", ()), TUNNEL, started=0)
    exchange.outcome = Outcome(effect, "why")
    exchange.response = ResponseHead(status, b"OK", fields)
    return exchange


def returned(exchange: Exchange) -> Fields:
    Streamer().responseheaders(exchange, TUNNEL)
    assert exchange.returned
    return exchange.returned.fields


@pytest.mark.parametrize(("effect", "wanted"), [(Effect.ALLOW, ()), (Effect.DENY, ((b"x-agent-sandbox", b"blocked"),))])
def test_keeps_the_denial_header_of_the_proxy_and_drops_a_forged_one(effect: Effect, wanted: Fields) -> None:
    assert returned(answered(403, (b"x-agent-sandbox", b"blocked"), effect=effect)) == wanted


def test_passes_on_a_requested_websocket_upgrade() -> None:
    exchange = answered(101, (b"Upgrade", b"WebSocket"))
    exchange.websocket = True
    assert returned(exchange) == ((b"Upgrade", b"WebSocket"),)


@pytest.mark.parametrize(("websocket", "upgrade"), [(False, b"websocket"), (True, b"foo")])
def test_rejects_an_unsolicited_protocol_switch(websocket: bool, upgrade: bytes) -> None:  # noqa: FBT001
    exchange = answered(101, (b"Upgrade", upgrade))
    exchange.websocket = websocket
    Streamer().responseheaders(exchange, TUNNEL)
    assert exchange.returned is None
    assert exchange.outcome.reason == "the server switched to a protocol that the client did not request"


@pytest.mark.parametrize("status", [-5, 0, 99, 100, 103, 199, 1000])
def test_rejects_a_status_that_is_not_final(status: int) -> None:
    exchange = answered(status)
    Streamer().responseheaders(exchange, TUNNEL)
    assert exchange.returned is None
    assert exchange.outcome.reason == f"the server sent the status {status}, which ends no response"


def test_returns_nothing_without_a_response() -> None:
    exchange = answered()
    exchange.response = None
    Streamer().responseheaders(exchange, TUNNEL)
    assert exchange.returned is None


def test_redacts_echoes_in_reason_names_and_values() -> None:
    exchange = answered(200, (b"X-You", b"said: hunter22!"), (b"hunter22", b"a"))
    assert exchange.response
    exchange.response = replace(exchange.response, reason=b"OK hunter22")
    exchange.echoes = Echoes([b"hunter22"])
    Streamer().responseheaders(exchange, TUNNEL)
    assert exchange.returned == ResponseHead(200, b"OK ********", ((b"X-You", b"said: ********!"), (b"********", b"a")))
    assert whole(exchange.received, b"a hunt", b"er22 b") == b"a ******** b"
    assert exchange.received.count == len(b"a hunter22 b")
    exchange.trailers = ((b"said", b"hunter22"),)
    Streamer().response(exchange, TUNNEL)
    assert exchange.trailers == ((b"said", b"********"),)


@each(
    ("status", "fields", "shown"),
    [
        (400, (), b"********"),
        (503, ((b"content-type", b"application/xml"),), b"********"),
        (301, (), b"********"),
        (299, (), b"hunter22"),
        (200, (), b"hunter22"),
    ],
)
def test_redacts_a_session_token_in_all_but_successful_responses(
    status: int, fields: tuple[tuple[bytes, bytes], ...], shown: bytes
) -> None:
    exchange = answered(status, *fields)
    exchange.echoes, exchange.only_token = Echoes([b"hunter22"]), True
    Streamer().responseheaders(exchange, TUNNEL)
    assert whole(exchange.received, b"hunter22") == shown


def test_leaves_fields_without_an_echo_unchanged() -> None:
    exchange = answered(200, (b"X", b"hunter"), (b"22", b"y"))
    exchange.echoes = Echoes([b"hunter22"])
    assert returned(exchange) == ((b"X", b"hunter"), (b"22", b"y"))


@pytest.mark.parametrize("echoes", [(), (b"hunter22",)])
def test_leaves_trailers_unchanged_without_a_secret(echoes: tuple[bytes, ...]) -> None:
    exchange = answered()
    exchange.echoes = Echoes(echoes)
    exchange.trailers = None if echoes else ((b"a", b"hunter22"),)
    Streamer().response(exchange, TUNNEL)
    assert exchange.trailers == (None if echoes else ((b"a", b"hunter22"),))


TYPE, TOOLS = (b"Content-Type", b"application/json"), b'{"result": {"tools": [{"name": "a"}]}}'
X, GZIP, LENGTH = (b"X", b"y"), (b"Content-Encoding", b"gzip"), (b"Content-Length", b"32")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@each(
    ("version", "fields", "wanted"),
    [
        (b"HTTP/1.1", (GZIP, LENGTH, X), (X, CHUNKED)),
        (b"HTTP/1.1", (GZIP, CHUNKED, X), (CHUNKED, X)),
        (b"HTTP/1.0", (GZIP, LENGTH, X), (X,)),
        (b"HTTP/2.0", (GZIP, LENGTH, X), (X,)),
    ],
)
def test_decompresses_and_reframes_a_compressed_response_with_a_secret(
    version: bytes, fields: Fields, wanted: Fields
) -> None:
    exchange = answered(200, *fields)
    exchange.head = replace(exchange.head, version=version)
    exchange.echoes = Echoes([b"hunter22"])
    assert returned(exchange) == wanted
    assert whole(exchange.received, gzip.compress(b"a hunter22 b")) == b"a ******** b"


@each(("method", "status"), [("HEAD", 200), ("head", 200), ("GET", 204), ("GET", 304)])
def test_a_response_without_a_body_keeps_its_content_encoding(method: str, status: int) -> None:
    exchange = answered(status, GZIP, LENGTH)
    exchange.method = method
    exchange.echoes = Echoes([b"hunter22"])
    assert returned(exchange) == (GZIP, LENGTH)
    assert whole(exchange.received) == b""


def test_returns_a_compressed_response_without_a_secret_unchanged() -> None:
    exchange = answered(200, GZIP, LENGTH)
    assert returned(exchange) == (GZIP, LENGTH)
    assert exchange.received(b"anything") == b"anything"


@each(
    ("status", "fields", "wanted", "shown"),
    [
        (200, (TYPE, LENGTH), (TYPE, CHUNKED), b'{"result": {"tools": []}}'),
        (200, (TYPE, LENGTH, GZIP), (TYPE, CHUNKED), b'{"result": {"tools": []}}'),
        (405, (LENGTH,), (LENGTH,), TOOLS),
        (204, (TYPE,), (TYPE,), TOOLS),
    ],
)
def test_filters_and_reframes_a_list_of_tools(status: int, fields: Fields, wanted: Fields, shown: bytes) -> None:
    exchange = answered(status, *fields)
    exchange.shows_tool = "b".__eq__
    assert returned(exchange) == wanted
    body = gzip.compress(TOOLS) if GZIP in fields else TOOLS
    assert whole(exchange.received, body) == shown


USE = SecretUse(secret="git.token", kind="basic", source="stored", age=1.0)
BATCH = b'{"header": {"Authorization": "Basic bWU6and0"}}'
HIDDEN = b'{"header": {"Authorization": "Basic ********"}}'


@each(
    ("path", "secrets", "status", "shown"),
    [
        ("/o/r.git/info/lfs/objects/batch", (USE,), 200, HIDDEN),
        ("/o/r.git/info/LFS/objects/Batch", (USE,), 200, HIDDEN),
        ("/o/r.git/info/lfs/objects/batch/", (USE,), 200, HIDDEN),
        ("/o/r.git/info/lfs/objects/batch;x", (USE,), 200, HIDDEN),
        ("/o/r.git/info/lfs/objects/batch", (), 200, BATCH),
        ("/o/r.git/info/lfs/objects/batch/x", (USE,), 200, BATCH),
        ("/o/r.git/info/lfs/objects/batch", (USE,), 404, BATCH),
        ("/o/r.git/info/lfs/objects/batch", (USE,), 301, BATCH),
        ("/o/r.git/info/lfs/objects/batch", (USE,), 204, BATCH),
    ],
)
def test_credentials_for_large_files_are_hidden_from_a_client_without_the_secret(
    path: str, secrets: tuple[SecretUse, ...], status: int, shown: bytes
) -> None:
    exchange = answered(status, LENGTH)
    exchange.path, exchange.secrets = path, secrets
    assert returned(exchange) == ((CHUNKED,) if shown == HIDDEN else (LENGTH,))
    assert whole(exchange.received, BATCH) == shown


def test_a_response_that_may_list_tools_and_hand_out_credentials_is_filtered_for_both() -> None:
    exchange = answered(200, TYPE)
    exchange.path, exchange.secrets, exchange.shows_tool = "/o/r.git/info/lfs/objects/batch", (USE,), "b".__eq__
    returned(exchange)
    body = TOOLS.removesuffix(b"}") + b', "objects": [' + BATCH + b"]}"
    shown = b'{"result": {"tools": []}, "objects": [' + HIDDEN + b"]}"
    assert whole(exchange.received, body) == shown


def test_all_filtered_responses_share_one_limit_of_held_bytes() -> None:
    streamer, exchanges = Streamer(), [answered(200, TYPE) for _ in range(MAX_HELD // MAX_ANSWER + 1)]
    for exchange in exchanges:
        exchange.shows_tool = "b".__eq__
        streamer.responseheaders(exchange, TUNNEL)
    *others, last = exchanges
    for exchange in others:
        exchange.received(b" " * MAX_ANSWER)
    with pytest.raises(ToolListError, match="the proxy holds too many other responses"):
        last.received(b" ")


@pytest.mark.parametrize(
    ("status", "kind", "refuses"), [(403, "sigv4", ["key"]), (403, "bearer", []), (200, "sigv4", [])]
)
def test_an_error_with_a_code_of_aws_refuses_the_key_and_passes_unchanged(
    status: int, kind: str, refuses: list[str]
) -> None:
    exchange, body = answered(status, (b"Content-Length", b"31")), b"<Code>InvalidAccessKeyId</Code>"
    exchange.secrets = (SecretUse(secret="key", kind=kind, source="aws", age=0.0),)
    assert returned(exchange) == ((b"Content-Length", b"31"),)
    assert whole(exchange.received, body) == body
    assert [one.secret for one in exchange.secrets if exchange.refuses_secret] == refuses


@pytest.mark.parametrize("end", ["response", "error"])
def test_frees_what_a_response_holds_when_it_ends(end: str) -> None:
    streamer, packed = Streamer(), gzip.compress(b" " * 1_000)
    exchanges = [answered(200, JSON, (b"Content-Encoding", b"gzip")) for _ in range(2)]
    for exchange in exchanges:
        exchange.shows_tool = "b".__eq__
        streamer.responseheaders(exchange, TUNNEL)
        exchange.received(packed)
    room, count = streamer._room, streamer._unpackings
    assert room
    assert (room.left, count.count) == (MAX_HELD - 2_000, 2)
    getattr(streamer, end)(exchanges[0], TUNNEL)
    assert (room.left, count.count) == (MAX_HELD - 1_000, 1)
    with pytest.raises(UnpackError):
        exchanges[0].received(packed)
