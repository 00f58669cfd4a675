"""Says three words over a WebSocket, each when the one before came back.

In one thread: `websockets.sync` reads and writes a TLS connection in two, and CPython 3.13 does not lock it. A session
ticket that arrives while the request is written then breaks the connection once in a few hundred times.
"""

import asyncio
import sys

from websockets.asyncio.client import connect


async def converse(url: str) -> None:
    """Say the words to the server at `url`."""
    async with connect(url) as chat:
        for word in ("hello", "from", "a chat"):
            await chat.send(word)
            print(await chat.recv())


asyncio.run(converse(sys.argv[1]))
