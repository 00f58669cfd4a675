"""This tree beside another one, such as the last release, round by round in turn.

`OTHER_TREE` names the other checkout, in which `make setup` has run. A ratio above 1 means that this tree got slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

from benchmarks import proxy, startup
from benchmarks.client import Client
from benchmarks.servers import ours, upstream
from benchmarks.table import Ratio, Row

ROUNDS = 9
COMMANDS = [command for command in startup.COMMANDS if not command[-1]]  # those that use the cache
HOSTS = 1000
DECIDE = """
import sys, time
from pathlib import Path
from agent_sandbox.policy import decide, parse_request
from agent_sandbox.policyfile import load_policy
file = Path(sys.argv[1])
start = time.process_time()
policy = load_policy(file)
loaded = time.process_time() - start
asked = [
    parse_request(scheme="https", host=f"h{n}.example.com", port=443, method="GET", target="/a/b") for n in range(1000)
]
start = time.process_time()
for _ in range(20):
    for request in asked:
        decide(policy, request)
print(loaded * 1e3, (time.process_time() - start) / 20_000 * 1e6)
"""
LOADED = {"load": ("load 1,000 hosts from YAML", "ms"), "decide": ("decision, 1,000 hosts", "us")}


def rows() -> list[Row]:
    """Measure both trees in turn: commands, decisions, the proxy."""
    other = Path(os.environ["OTHER_TREE"]).resolve() / ".venv" / "bin" / "python"
    pythons = {"ours": sys.executable, "other": str(other)}
    names: dict[str, tuple[str, str]] = {key: (title, unit) for key, title, unit, _ in proxy.WANTED}
    figures = {side: defaultdict[str, list[float]](list) for side in pythons}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, python in pythons.items():
            (folder / side / "project").mkdir(parents=True)
            for arguments, *_ in COMMANDS:
                _command(folder / side, python, arguments)  # the first run compiles
        (folder / "policy.yaml").write_text("domains:\n" + "".join(f"- h{n}.example.com\n" for n in range(HOSTS)))
        with upstream(folder) as port:
            for turn in range(ROUNDS):
                for side in ("ours", "other") if turn % 2 == 0 else ("other", "ours"):
                    _measure(folder, port, side, pythons[side], figures[side])
    names |= LOADED | {title: (title, "ms") for _, title, *_ in COMMANDS}
    row = partial(Row, beside="the other tree", ratio=Ratio.COST)
    return [
        row(figure=title, unit=unit, ours=figures["ours"][key], other=figures["other"][key])
        for key, (title, unit) in names.items()
    ]


def _measure(folder: Path, port: int, side: str, python: str, figures: proxy.Figures) -> None:
    """Add one round of every figure of one tree."""
    for arguments, title, *_ in COMMANDS:
        figures[title].append(1000 * _command(folder / side, python, arguments))
    command = (python, "-P", "-c", DECIDE, str(folder / "policy.yaml"))
    load, decide = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    figures["load"].append(float(load))
    figures["decide"].append(float(decide))
    with ours(folder, port, python=python) as server:
        figures["start"].append(1000 * server.started_in)
        figures["idle"].append(server.memory())
        proxy.new_connections(Client(server))
        proxy.measure(server, figures)


def _command(folder: Path, python: str, arguments: tuple[str, ...]) -> float:
    """Return the wall time, in seconds, of one command of a tree."""
    argv = (str(Path(python).with_name("agent-sandbox")), *arguments)
    return startup.seconds(argv, folder / "project", startup.environment(folder))
