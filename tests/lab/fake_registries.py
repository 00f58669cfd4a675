"""The outside that real clients work with: files, a forge, registries, streams and calls. An ASGI application.

    hypercorn --bind 0.0.0.0:443 --insecure-bind 0.0.0.0:80 --certfile leaf.pem --keyfile leaf.pem fake_registries:app

Hypercorn speaks HTTP/1.1, HTTP/2 and WebSocket for it.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from fake_forge import Answer, git, lfs
from fake_packages import shelves

type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]

ON_SHELVES = shelves("https://work.test")
MIB = 1_048_576
BLOCK = hashlib.shake_128(b"what a download is made of").digest(MIB - 8)


async def bodies(receive: Receive) -> AsyncIterator[bytes]:
    """Give a request's body as it comes."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def begin(send: Send, kind: bytes, *, trailers: bool = False) -> None:
    """Begin an answer whose body comes later."""
    head = [(b"content-type", kind)]
    await send({"type": "http.response.start", "status": 200, "headers": head, "trailers": trailers})


async def say(send: Send, data: bytes, *, more: bool = True) -> None:
    """Send a part of a body."""
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def download(scope: Message, _: Receive, send: Send) -> None:
    """Send as many different MiB as the query asks for."""
    await begin(send, b"application/octet-stream")
    for number in range(int(scope["query_string"])):
        await say(send, number.to_bytes(8) + BLOCK)
    await say(send, b"", more=False)


async def upload(_: Message, receive: Receive, send: Send) -> None:
    """Send the checksum of that data."""
    checksum = hashlib.sha256()
    async for data in bodies(receive):
        checksum.update(data)
    await begin(send, b"text/plain")
    await say(send, checksum.hexdigest().encode(), more=False)


async def events(_: Message, __: Receive, send: Send) -> None:
    """Send three events, a moment apart."""
    await begin(send, b"text/event-stream")
    for number in range(3):
        await say(send, f"data: event {number}\n\n".encode())
        await asyncio.sleep(0.4)
    await say(send, b"", more=False)


async def call(_: Message, receive: Receive, send: Send) -> None:
    """Answer each message of a gRPC call with itself, when it comes: a unary call and a stream alike."""
    await begin(send, b"application/grpc", trailers=True)
    async for data in bodies(receive):
        await say(send, data)
    await say(send, b"", more=False)
    await send({"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]})


async def chat(receive: Receive, send: Send) -> None:
    """Answer each message of a WebSocket with itself."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message.get("bytes"), "text": message.get("text")})


STREAMS = {"/big": download, "/sum": upload, "/events": events, "/echo.Echo/Say": call, "/echo.Echo/Talk": call}


async def whole(scope: Message, body: bytes) -> Answer:
    """Answer a request that is read whole."""
    path, fields = scope["path"], {name.decode(): value.decode() for name, value in scope["headers"]}
    if path.startswith("/git/") and "/info/lfs/" in path:
        return lfs(scope["method"], path, body)
    if path.startswith("/git/"):
        return await git(scope["method"], path, scope["query_string"].decode(), fields, body)
    if path.startswith("/ci/"):
        return Answer(body=b"line 3: it failed\n", kind="text/plain")
    if path in ON_SHELVES:
        body = ON_SHELVES[path]
        return Answer(
            body=body, kind="text/html" if body.startswith(b"<!DOCTYPE html>") else "application/octet-stream"
        )
    return Answer(status=404, body=json.dumps({"message": f"nothing at {path}"}).encode())


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Serve one request, or one WebSocket."""
    if scope["type"] == "lifespan":
        raise NotImplementedError  # says that it has none
    if scope["type"] == "websocket":
        await chat(receive, send)
    elif scope["path"] in STREAMS:
        await STREAMS[scope["path"]](scope, receive, send)
    else:
        answer = await whole(scope, b"".join([data async for data in bodies(receive)]))
        head = [(b"content-type", answer.kind.encode()), (b"content-length", str(len(answer.body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await say(send, answer.body if scope["method"] != "HEAD" else b"", more=False)
