"""Requests with an injected secret, whose responses are searched for it, and the same without, in turn."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.client import Client
from benchmarks.servers import HOST, Server, ours, upstream
from benchmarks.table import Ratio, Row

ROUNDS = 9
REQUESTS = 300
DOWN = 200 * 1024 * 1024
NAME, VALUE = "bench.key", "sk-proj-" + "aB3dE5fG7hI9" * 4
INJECTED, PLAIN = "injected", "plain"
ENTRY = (
    f"{{host: {HOST}, rules: [{{path: {{prefix: /{PLAIN}/}}}}]}}, "
    f"{{host: {HOST}, rules: [{{path: {{prefix: /{INJECTED}/}}}}], "
    f"transform: {{request: {{headers: {{Authorization: {{secret: {NAME}, transform: {{type: bearer}}}}}}}}}}}}"
)


def rows() -> list[Row]:
    """Measure both ways in turn, through one proxy."""
    figures: dict[str, dict[str, list[float]]] = {
        path: {"request": [], "json": [], "bytes": []} for path in (INJECTED, PLAIN)
    }
    with tempfile.TemporaryDirectory() as name, upstream(Path(name)) as port:
        folder = Path(name)
        (folder / "state" / "secrets").mkdir(parents=True)
        (folder / "state" / "secrets" / NAME).write_text(json.dumps({"hosts": [HOST], "value": VALUE}))
        with ours(folder, port, entry=ENTRY) as server:
            client = Client(server)
            for turn in range(ROUNDS + 1):
                for path in (INJECTED, PLAIN) if turn % 2 else (PLAIN, INJECTED):
                    found = measure(client, server, path)
                    for figure, value in found.items():
                        figures[path][figure] += [value] if turn else []  # the first round warms up
    injected, plain = figures[INJECTED], figures[PLAIN]
    return [
        Row(figure="CPU per kept-alive request with a secret", unit="ms", ours=injected["request"],
            other=plain["request"], beside="without", goal="0.1 ms more", ratio=Ratio.MORE),
        Row(figure="CPU for 200 MB of JSON, searched for a secret", unit="ms", ours=injected["json"],
            other=plain["json"], beside="unsearched", goal=">= 0.7x"),
        Row(figure="CPU for 200 MB of one letter, searched for a secret", unit="ms", ours=injected["bytes"],
            other=plain["bytes"], beside="unsearched", goal=">= 0.7x"),
    ]  # fmt: skip


def measure(client: Client, server: Server, path: str) -> dict[str, float]:
    """Return one round of every figure, in milliseconds of CPU."""
    found = {}
    for figure, times, target in (
        ("request", REQUESTS, "bytes/10"),
        ("json", 1, f"json/{DOWN}"),
        ("bytes", 1, f"bytes/{DOWN}"),
    ):
        with client.connection() as connection:
            client.request(connection, f"GET /{path}/{target[:6]}0")
            before = server.cpu()
            for _ in range(times):
                client.request(connection, f"GET /{path}/{target}")
            found[figure] = 1000 * (server.cpu() - before) / times
    return found
