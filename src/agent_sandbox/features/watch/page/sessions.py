"""Sessions of the page: a browser exchanges the token in the address for one, once and within ten minutes.

A session is a cookie and a key. The cookie alone is not enough: browsers send it to every port of 127.0.0.1, also to a
server in the sandbox that `agent-sandbox ports` made reachable. The key is stored by the page, under its own port.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hmac import compare_digest

from msgspec import Struct

BYTES = 32
TOKEN_SECONDS = 600.0
MOST = 8  # sessions; the oldest ends


class Session(Struct, frozen=True, kw_only=True):
    """Two secrets: `cookie` is hidden from scripts, `key` from other ports."""

    cookie: str
    key: str


class Sessions:
    """The one valid token, and the sessions. Thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0
        self._keys: OrderedDict[str, str] = OrderedDict()

    def new_token(self) -> str:
        """Return a new token, and invalidate the one before."""
        token = secrets.token_urlsafe(BYTES)
        with self._lock:
            self._token, self._until = token, self._clock() + TOKEN_SECONDS
        return token

    def begin(self, token: str) -> Session | None:
        """Return a session for the token, or None if the token is not valid."""
        with self._lock:
            good = self._token != "" and self._clock() < self._until and _same(token, self._token)
            if not good:
                return None
            self._token = ""
            session = Session(cookie=secrets.token_urlsafe(BYTES), key=secrets.token_urlsafe(BYTES))
            self._keys[session.cookie] = session.key
            if len(self._keys) > MOST:
                self._keys.popitem(last=False)
            return session

    def has(self, session: Session) -> bool:
        """Return whether this is a known session: the cookie with its own key."""
        with self._lock:
            return any(_same(session.cookie, cookie) and _same(session.key, key) for cookie, key in self._keys.items())


def _same(said: str, secret: str) -> bool:
    return compare_digest(said.encode("utf-8", "replace"), secret.encode())
