"""How long a decision takes, and a policy to load, beside a loop over patterns."""

from __future__ import annotations

import fnmatch
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.policy import Policy, Request, decide, parse_request
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.cached import load_cached
from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS = 7
# fnmatch keeps so many patterns compiled; a loop over more would take minutes to say what is clear by then.
LOOPED = 10_000
MANY_RULES = 10_000
MEASURE_MEMORY = """
import sys
from pathlib import Path
from agent_sandbox.policyfile import load_policy
resident = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
before = resident()
policy = load_policy(Path(sys.argv[1]))
print(resident() - before)
"""


def rows() -> list[Row]:
    """Measure decisions by the number of hosts and of rules, then loading."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {number: _decision(folder, number) for number in (10, 1_000, 100_000, 1_000_000)}
        flat = Row(
            figure="the same, 100,000 hosts beside 10",
            unit="us",
            ours=sizes[100_000].ours,
            other=sizes[10].ours,
            beside="with 10",
            goal="2x",
            ratio=Ratio.COST,
        )
        return [*sizes.values(), flat, _many_rules(folder), *_loading(folder), _memory(folder)]


def microseconds(ask: Callable[[], object], *, times: int) -> float:
    """Return what one call takes of this process: other processes on the machine do not count."""
    start = time.process_time()
    for _ in range(times):
        ask()
    return (time.process_time() - start) / times * 1e6


def hosts(number: int) -> list[str]:
    return [f"h{index}.x{index % 1000}.example.com" for index in range(number)]


def policy_of(folder: Path, text: str) -> Policy:
    file = folder / "policy.yaml"
    file.write_text(text)
    return load_policy(file)


def _decision(folder: Path, number: int) -> Row:
    names = hosts(number)
    if number <= 100_000:
        policy = policy_of(folder, "domains:\n" + "".join(f"- {name}\n" for name in names))
    else:
        (folder / "hosts.txt").write_text("\n".join(names))
        policy = policy_of(folder, "domains_file: hosts.txt\n")
    chosen = random.Random(1).choices(names, k=2000)  # noqa: S311 - a sample
    asked = [parse_request(scheme="https", host=name, port=443, method="GET", target="/a/b") for name in chosen]
    ours, other = [], []
    for turn in range(ROUNDS):
        following = iter(asked).__next__
        ours.append(_each(policy, following, times=len(asked)))
        if number <= LOOPED:
            other.append(_loop(names, chosen[turn]))
    where = "in a `domains_file`" if number > 100_000 else "in YAML"
    figure = f"decision, {number:,} hosts {where}"
    return Row(
        figure=figure, unit="us", ours=ours, other=other, beside="a loop of fnmatch" if other else "", goal="<= 1 us"
    )


def _each(policy: Policy, following: Callable[[], Request], *, times: int) -> float:
    return microseconds(lambda: decide(policy, following()), times=times)


def _loop(patterns: Sequence[str], text: str) -> float:
    """Return what a loop over the patterns takes until it finds the one."""
    return microseconds(lambda: next(one for one in patterns if fnmatch.fnmatch(text, one)), times=1)


def _many_rules(folder: Path) -> Row:
    paths = [f"/r{index}/" for index in range(MANY_RULES)]
    lines = (f"  - {{methods: [GET], path: {{prefix: {path}}}}}\n" for path in paths)
    policy = policy_of(folder, "domains:\n- host: a.test\n  rules:\n" + "".join(lines))
    target = f"{paths[MANY_RULES * 2 // 3]}a/b"
    globs = [f"{path}*" for path in paths]

    def ask() -> object:
        return decide(policy, parse_request(scheme="https", host="a.test", port=443, method="GET", target=target))

    return Row(
        figure=f"normalisation and decision, {MANY_RULES:,} rules on one host",
        unit="us",
        ours=[microseconds(ask, times=2000) for _ in range(ROUNDS)],
        other=[_loop(globs, target) for _ in range(ROUNDS)],
        beside="a loop of fnmatch",
        goal="<= 3 us",
    )


def _loading(folder: Path) -> list[Row]:
    text = "domains:\n" + "".join(f"- {name}\n" for name in hosts(1000))
    policy_of(folder, text)
    took = [microseconds(lambda: load_policy(folder / "policy.yaml"), times=1) / 1000 for _ in range(ROUNDS)]
    cache_dir = CacheDir(folder=folder / "shelf")
    load_cached(folder / "policy.yaml", cache_dir=cache_dir)
    kept = partial(load_cached, folder / "policy.yaml", cache_dir=cache_dir)
    again = [microseconds(kept, times=1) / 1000 for _ in range(ROUNDS)]
    return [
        Row(figure="load 1,000 hosts from YAML", unit="ms", ours=took, goal="<= 50 ms"),
        Row(figure="load 1,000 hosts from the compiled form", unit="ms", ours=again, goal="<= 5 ms"),
    ]


def _memory(folder: Path) -> Row:
    (folder / "hosts.txt").write_text("\n".join(hosts(1_000_000)))
    (folder / "policy.yaml").write_text("domains_file: hosts.txt\n")
    command = (sys.executable, "-P", "-c", MEASURE_MEMORY, folder / "policy.yaml")
    grown = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(3)]
    return Row(figure="memory of 1,000,000 hosts in a `domains_file`", unit="MB", ours=grown, goal="<= 80 MB")
