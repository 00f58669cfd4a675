"""Add up the tokens and costs that the agents of a stack report in their session files.

A program reads the files, in a container without a network that can only read them. The agent wrote them, so it may
have written anything: the program's answer is checked and bounded.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.container import StackFound
from agent_sandbox.engines.place import Helper, Store
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.usage.state_sizes import agent_of
from agent_sandbox.host.agents import load_agents, load_manifests
from agent_sandbox.host.command import Command
from agent_sandbox.images import usage_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.services.agent import local_volume, state_volumes

# A session file can name any cost: the sum of many must stay a number.
LARGEST = 1 << 53
LONGEST = 100
# Rows in an answer: an agent can make any number of days, agents and models up.
MOST_ROWS = 100_000
MOST_NAMES = 1_000
OTHERS = "(others)"
# Where the program in the image finds the state, and in which directory in memory it works.
STATE, MEMORY = "/state", "/run/home"
# Without `timeout`, a pipe in place of a session file would keep the container for ever if this process is killed.
SECONDS = 60.0
PROGRAM = (
    *("timeout", "--kill-after=2", f"{SECONDS + 10:g}"),
    *("python3", "-I", "/opt/usage/count.py", "daily", "--json", "--offline", "--by-agent", "--timezone", "UTC"),
)
TOKENS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_creation": "cacheCreationTokens",
    "cache_read": "cacheReadTokens",
}


class NotAnAnswerError(Exception):
    """The program did not answer as it should."""


class Tokens(Struct, kw_only=True):
    """Tokens by kind, and what they cost in US dollars by the program's list of prices."""

    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0
    cost: float = 0.0

    def add(self, other: "Tokens") -> None:
        """Add another sum."""
        self.input += other.input
        self.output += other.output
        self.cache_creation += other.cache_creation
        self.cache_read += other.cache_read
        self.cost += other.cost

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_creation + self.cache_read


class AgentUsage(Struct, kw_only=True):
    """The tokens that one agent used, in total and by model. The names are the program's."""

    agent: str
    tokens: Tokens = field(default_factory=Tokens)
    models: dict[str, Tokens] = {}


def question(driver: Driver, project: Project, stack: StackFound, since: str) -> Command | None:
    """Return what to run for a stack, None if it has no state. `since` is a day such as 2026-01-31, or empty."""
    stores = tuple(Store(volume=name, at=place) for place, name in _places(project, stack))
    if not stores:
        return None
    helper = Helper(project=project, image=usage_name(), stores=stores, home=MEMORY)
    days = ("--since", since) if since else ()
    return driver.spawn(helper, *PROGRAM, *days, user=f"{project.owner.uid}:{project.owner.gid}")


def _places(project: Project, stack: StackFound) -> Iterator[tuple[str, str]]:
    """Yield where the volumes of a stack's agents belong: also those of agents that it has no more."""
    keys = {name.removeprefix(f"{stack.name}_"): name for name in stack.volumes}
    manifests, _ = load_manifests(dict.fromkeys(filter(None, map(agent_of, keys))))
    for manifest in manifests:
        yield from ((f"{STATE}/{path}", keys[key]) for key, path in state_volumes(manifest).items() if key in keys)
    local = _local_key(project)
    if local in keys:
        yield f"{STATE}/.local", keys[local]


def _local_key(project: Project) -> str:
    try:
        return local_volume(load_agents(project.agents))
    except UserError:  # an agent of the user's own, whose manifest is gone
        return ""


def read_usage(text: str) -> tuple[AgentUsage, ...]:
    """Return the usage by agent from the program's answer, the most expensive first; raise NotAnAnswerError."""
    found: dict[str, AgentUsage] = {}
    try:
        rows = [row for day in _rows(read_json(text)["daily"]) for row in _rows(day["agents"])]
        for row in _rows(rows):
            name = _name(row["agent"], found)
            one = found.setdefault(name, AgentUsage(agent=name))
            one.tokens.add(_tokens(row, "totalCost"))
            for model in _rows(row["modelBreakdowns"]):
                one.models.setdefault(_name(model["modelName"], one.models), Tokens()).add(_tokens(model, "cost"))
    except (ValueError, LookupError, TypeError) as error:
        raise NotAnAnswerError from error
    return tuple(sorted(found.values(), key=lambda one: (-one.tokens.cost, -one.tokens.total, one.agent)))


def total(usage: Iterable[AgentUsage]) -> Tokens:
    """Return the sum."""
    found = Tokens()
    for one in usage:
        found.add(one.tokens)
    return found


def _rows(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ROWS:
        raise TypeError
    return value


def _name(value: object, known: Mapping[str, object]) -> str:
    name = str(value)[:LONGEST]
    return name if name in known or len(known) < MOST_NAMES else OTHERS


def _tokens(row: Mapping[str, Any], cost: str) -> Tokens:
    counts = {name: _count(row[key]) for name, key in TOKENS.items()}
    return Tokens(**counts, cost=_cost(row[cost]))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError
    return value


def _cost(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError
    return float(value)
