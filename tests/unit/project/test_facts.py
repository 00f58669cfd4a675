from typing import Any

from msgspec.structs import replace

from agent_sandbox.engines.compose.render import render_stack_file
from agent_sandbox.project.facts import facts_in, facts_of
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.stack.containers import PROTECTED
from agent_sandbox.stack.limits import DEFAULT, limits
from agent_sandbox.stack.recorded import Facts, ServiceBeside
from agent_sandbox.stack.workspace import Beside, Mask, Protected
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of
from table_tests import each

FULL = replace(
    WORKSPACE,
    limits=limits({"memory": "4g", "cpus": "1.5", "disk": "20g"}),
    protected=(*WORKSPACE.protected, Protected(path="a$b", why="odd")),
    masks=(Mask(path="secret $1.txt", directory=False), Mask(path="keys", directory=True)),
    environment={"OWN": "a $VALUE"},
    layers={"admin": "/etc/agent $sandbox"},
    beside=(
        Beside(name="db", image="postgres:17", user="70:70", limits=DEFAULT),
        Beside(name="web", image="web:1", limits=DEFAULT),
    ),
)


def agent(**keys: object) -> Facts:
    return facts_in({"services": {"agent": keys}})


def test_ignores_mounts_of_the_workspace_itself_and_of_paths_outside_it() -> None:
    volumes = [{"target": f"/workspace{path}", "read_only": "true"} for path in ("", "/../etc", "/a/../../etc", "/a")]
    assert agent(volumes=volumes) == Facts(protected=frozenset({"a"}))


def test_only_what_the_agent_cannot_write_is_protected() -> None:
    volumes = [
        {"target": "/workspace", "read_only": "false"},
        {"target": "/workspace/.git"},
        {"target": "/workspace/.env", "read_only": "true"},
        {"target": "/etc/ssl/certs", "read_only": "true"},
    ]
    assert agent(volumes=volumes) == Facts(protected=frozenset({".env"}))


def test_a_read_only_mount_that_is_only_pinned_is_not_protected() -> None:
    volumes = [{"target": "/home/dev/.dotfiles", "read_only": "true"}]
    assert agent(volumes=volumes, environment={PROTECTED: "pinned /home/dev/.dotfiles"}) == Facts()


@each("odd", ["./hooks:/workspace/.git/hooks", {"source": "./hooks"}, {"target": ["/workspace/.git"]}, None])
def test_nothing_is_protected_if_a_mount_in_another_notation_could_cover_it(odd: object) -> None:
    volumes = [{"target": "/workspace/.git", "read_only": "true"}, {"target": "/workspace/a", "source": "/dev/null"}]
    assert agent(volumes=[*volumes, odd]) == Facts()


@each(
    "document",
    [
        {},
        {"services": None, "networks": None, "volumes": None},
        {"services": {"agent": None, "db": None}, "volumes": {"a": None}, "networks": {"sandbox": None}},
        {"services": {"agent": {"volumes": "a", "environment": ["a=b"], "mem_limit": "much", "storage_opt": "x"}}},
        {"networks": {"sandbox": {"ipam": {"config": []}}, "beside": {"ipam": {"config": [{"subnet": "a"}]}}}},
    ],
)
def test_finds_nothing_in_the_odd_parts_of_a_foreign_file(document: dict[str, Any]) -> None:
    assert facts_in(document) == Facts()


def test_reads_the_agents_limits_in_any_notation_of_the_engine() -> None:
    said = {"storage_opt": {"size": "20g"}, "mem_limit": "4096m", "pids_limit": "512"}
    limits = {"memory": "4g", "pids": "512", "cpus": "1.5", "disk": "20g"}
    assert agent(**said, cpu_period="100000", cpu_quota="150000") == Facts(limits=limits)


def test_bounded_volumes_are_those_with_a_size() -> None:
    volumes = {"a": {"name": "x_a", "driver_opts": {"size": "20g"}}, "b": {"name": "x_b"}}
    assert facts_in({"volumes": volumes}) == Facts(volumes={"x_a": "20g"})


def test_a_rendered_compose_file_says_what_its_stack_gives() -> None:
    stack = stack_of(FULL)
    text = render_stack_file(TEMPLATES, stack, AGENTS, FULL)
    facts = facts_of(stack)
    assert facts_in(load_foreign(text, file="docker-compose.yml")) == facts
    assert facts == replace(
        facts,
        protected=frozenset({".devcontainer", ".env", "a$b"}),
        masked=frozenset({"secret $1.txt"}),
        layers=frozenset({"/etc/agent $sandbox"}),
        limits={"memory": "4g", "cpus": "1.5", "pids": "4096", "disk": "20g"},
        beside={"db": ServiceBeside(image="postgres:17", user="70:70"), "web": ServiceBeside(image="web:1")},
    )
    assert (len(facts.subnets), facts.environment["OWN"], {*facts.volumes.values()}) == (2, "a $VALUE", {"20g"})
