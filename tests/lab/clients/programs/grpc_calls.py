"""A unary call, and a stream whose next message waits for the answer to the one before."""

import sys
from queue import Queue

import grpc

channel = grpc.secure_channel(f"{sys.argv[1]}:443", grpc.ssl_channel_credentials())
print(channel.unary_unary("/echo.Echo/Say")(b"hello", timeout=60).decode())
asked: Queue[bytes | None] = Queue()
asked.put(b"1")
for answer in channel.stream_stream("/echo.Echo/Talk")(iter(asked.get, None), timeout=60):
    print("streamed", answer.decode())
    asked.put(b"%d" % (int(answer) + 1) if int(answer) < 3 else None)
