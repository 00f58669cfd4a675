"""Send JSON to a URL: within a time limit, following no redirect, reading no body."""

import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_sandbox.policy.errors import InvalidValue

SECONDS = 10.0
NO_URL, EXAMPLE = "not a URL", "write https://HOST/PATH"  # its path is often a credential, so it is not repeated
USER_AGENT = "agent-sandbox"
ABOUT_BODY = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})


class NotSentError(Exception):
    """Why a message did not arrive, in one line without the URL's path.

    With `is_about_body`, the receiver will not accept these bytes later either.
    """

    def __init__(self, why: str, *, is_about_body: bool = False) -> None:
        super().__init__(why)
        self.is_about_body = is_about_body


def parse_url(text: str) -> SplitResult:
    """Return a URL that `post` can send to, or raise InvalidValue.

    >>> parse_url("https://hooks.example.com/x").hostname
    'hooks.example.com'
    """
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 - raises
    except ValueError as error:
        raise InvalidValue(NO_URL, EXAMPLE) from error
    if url.scheme not in {"http", "https"} or not url.hostname or not text.isascii() or not text.isprintable():
        raise InvalidValue(NO_URL, EXAMPLE)
    if url.username is not None:
        raise InvalidValue("the URL has a user name", "remove it")
    if " " in text:
        raise InvalidValue("the URL has a space", "write %20")
    return url


def post(url: SplitResult, body: bytes, headers: Mapping[str, str], *, seconds: float = SECONDS) -> None:
    """Send a body of JSON; raise NotSentError unless the receiver accepts it."""
    headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
    connection = _connection(url, seconds)
    path = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    try:
        connection.connect()
        with _ended_after(connection, seconds):
            connection.request("POST", path, body=body, headers=headers)
            status = connection.getresponse().status
    except TimeoutError as error:
        raise NotSentError(f"no answer within {seconds:g} seconds") from error
    except ssl.SSLCertVerificationError as error:
        raise NotSentError(f"its certificate is not valid: {error.verify_message}") from error
    except (OSError, HTTPException, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
        raise NotSentError(f"cannot be reached: {why.lower()}") from error
    finally:
        connection.close()
    if 300 <= status < 400:
        raise NotSentError(f"it answers {status}, a redirect, which is not followed")
    if not 200 <= status < 300:
        raise NotSentError(f"it answers {status}", is_about_body=status in ABOUT_BODY)


@contextmanager
def _ended_after(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """End the connection after some time: a socket's own limit is for each read, and an answer could have no end."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():  # also without an exception: what had come by then looks like a whole answer
        raise TimeoutError


def _connection(url: SplitResult, seconds: float) -> HTTPConnection:
    """Return a connection, through the proxy that this machine's environment names for the host.

    It always gets a port: without one, `http.client` takes the last group of an IPv6 address for it.
    """
    host = url.hostname or ""
    if url.scheme == "http":
        return HTTPConnection(host, url.port or 80, timeout=seconds)
    context = ssl.create_default_context()
    said = "" if proxy_bypass(host) else getproxies().get("https", "")
    try:
        proxy = urlsplit(said if "//" in said else f"//{said}")
        port = proxy.port or 80
    except ValueError as error:
        raise NotSentError("https_proxy is not a valid URL") from error
    if not proxy.hostname:
        return HTTPSConnection(host, url.port or 443, timeout=seconds, context=context)
    connection = HTTPSConnection(proxy.hostname, port, timeout=seconds, context=context)
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode() if proxy.username else b""
    connection.set_tunnel(
        host, url.port or 443, {"Proxy-Authorization": f"Basic {b64encode(login).decode()}"} if login else None
    )
    return connection
