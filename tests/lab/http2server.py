"""A server that speaks HTTP/2 alone, as gRPC's do: it counts a body, answers, and ends with trailers."""

import socket
from pathlib import Path
from typing import override

import h2.config
import h2.connection
import h2.events

from loopback_server import Listening


class Http2Server(Listening):
    """Listens on loopback over TLS with ALPN h2."""

    protocols = ("h2",)

    def __init__(self, certificate: Path, *, reads: bool = True, more: tuple[tuple[str, str], ...] = ()) -> None:
        self.certificate = certificate
        self.more = more  # fields of each response
        self.requests: list[dict[str, str]] = []
        self.reads = reads

    @override
    def talk(self, stream: socket.socket) -> None:
        """Answer stream by stream."""
        engine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        engine.initiate_connection()
        stream.sendall(engine.data_to_send())
        sizes: dict[int, int] = {}
        while data := stream.recv(65536):
            for event in engine.receive_data(data):
                self._handle(engine, event, sizes)
            stream.sendall(engine.data_to_send())

    def _handle(self, engine: h2.connection.H2Connection, event: h2.events.Event, sizes: dict[int, int]) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.requests.append({str(name): str(value) for name, value in event.headers})
            sizes[event.stream_id] = 0
        elif isinstance(event, h2.events.DataReceived) and self.reads:
            sizes[event.stream_id] += len(event.data)
            engine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            number = event.stream_id
            engine.send_headers(number, [(":status", "200"), ("content-type", "application/grpc"), *self.more])
            engine.send_data(number, str(sizes[number]).encode())
            engine.send_headers(number, [("grpc-status", "0")], end_stream=True)
