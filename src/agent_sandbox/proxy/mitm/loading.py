"""Import mitmproxy when a connection first needs it. Clients that speak HTTP/1.1 do not."""

import asyncio
import logging
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_sandbox.proxy.mitm.session import Session

LOADING = Lock()
AGAIN = "restart the sandbox: agent-sandbox down, then agent-sandbox up"


async def load_session() -> "type[Session] | str":
    """Return the session that runs mitmproxy's layers, or why they cannot be imported.

    The first call imports them in a thread: it takes 0.3 s. A failed import is not tried again.
    """
    if not _load.cache_info().currsize:
        await asyncio.to_thread(_load_once)
    return _load()


def _load_once() -> None:
    with LOADING:  # several clients may be the first
        _load()


@cache
def _load() -> "type[Session] | str":
    try:
        return _session()
    except Exception as error:  # recorded for each client that needs it
        logging.getLogger(__name__).exception("mitmproxy cannot be imported")
        return f"mitmproxy cannot be imported ({error}); {AGAIN}"


def _session() -> "type[Session]":
    from agent_sandbox.proxy.mitm import bulk_tls, http1_client, http2_client  # noqa: PLC0415 - see above
    from agent_sandbox.proxy.mitm.session import Session  # noqa: PLC0415 - see above

    for module in (bulk_tls, http1_client, http2_client):
        module.install()
    return Session
