"""Import mitmproxy when a connection first needs it. Clients that speak HTTP/1.1 do not."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_sandbox.proxy.mitm.session import Session


async def load_session() -> "type[Session]":
    """Return the session that runs mitmproxy's layers. The first call imports them in a thread: it takes 0.3 s."""
    if not _load.cache_info().currsize:
        await asyncio.to_thread(_load)
    return _load()


@cache
def _load() -> "type[Session]":
    from agent_sandbox.proxy.mitm import bulk_tls, http1_client, http2_client  # noqa: PLC0415 - see above
    from agent_sandbox.proxy.mitm.session import Session  # noqa: PLC0415 - see above

    for module in (bulk_tls, http1_client, http2_client):
        module.install()
    return Session
