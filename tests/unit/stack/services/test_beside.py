"""The services beside the sandbox: what each can see and reach."""

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.projectfile.beside import DEFAULT
from agent_sandbox.resources import data_root
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.model import Attachment, Condition, Dependency, Healthcheck, Mount, Stack
from agent_sandbox.stack.naming import beside_addresses
from agent_sandbox.stack.recorded import Ide, MountKind
from agent_sandbox.stack.workspace import Beside, Workspace

AGENTS = Agents((load_manifest(data_root() / "templates", "claude"),))
IMAGES = StackImages(proxy="proxy:1", agent="agent:1", firewall="base:1")
CHECK = Healthcheck(test=("true",), interval=1, timeout=1, retries=1, start_period=1, start_interval=1)
DB = Beside(
    name="db", image="postgres:17", ports=(5432, 5433), volumes=(("data", "/data"),), healthcheck=CHECK, limits=DEFAULT
)
CACHE = Beside(name="cache", image="redis:8", ports=(6379,), limits=DEFAULT)
WEB = Beside(name="web", image="web:1", user="www", links=("db", "cache"), limits=DEFAULT)
WHERE = beside_addresses("/p", ("db", "cache", "web"))
BOX, AT_DB, AT_CACHE = WHERE.agent, WHERE.services["db"], WHERE.services["cache"]


def made(*services: Beside) -> Stack:
    return build_stack(AGENTS, Workspace(path="/p", title="p", ide=Ide.NONE, beside=services), IMAGES)


STACK = made(DB, CACHE, WEB)


def test_a_project_without_services_has_only_the_three_usual_containers() -> None:
    stack = made()
    assert [one.name for one in stack.services] == ["proxy", "firewall", "agent"]
    assert [network.key for network in stack.networks] == ["sandbox", "egress"]
    assert not {"AGENT_SANDBOX_BESIDE"} & {*stack.service("firewall").environment, *stack.service("agent").environment}


def test_each_service_shares_the_network_of_its_own_firewall_and_waits_for_that_firewall() -> None:
    assert [one.name for one in STACK.services[3:]] == [
        "firewall.db",
        "db",
        "firewall.cache",
        "cache",
        "firewall.web",
        "web",
    ]
    firewall, db = STACK.service("firewall.db"), STACK.service("db")
    assert (db.shares_network_of, db.networks, db.depends_on) == (
        "firewall.db",
        (),
        (Dependency(service="firewall.db", condition=Condition.HEALTHY, restart=True),),
    )
    assert (firewall.image, firewall.networks) == ("base:1", (Attachment(network="beside", address=AT_DB),))


def test_a_service_sees_its_own_volumes_and_nothing_else_and_has_no_capability() -> None:
    assert STACK.service("db").mounts == (
        Mount(kind=MountKind.VOLUME, source="beside.db.data", target="/data", read_only=False),
    )
    assert {one.capabilities for one in (STACK.service("db"), STACK.service("cache"), STACK.service("web"))} == {()}
    of_others = {m.source for one in STACK.services if one.name != "db" for m in one.mounts}
    assert "beside.db.data" not in of_others


def test_firewalls_allow_only_the_agent_and_linked_services_on_declared_ports() -> None:
    firewalls = {name: STACK.service(f"firewall.{name}").environment for name in ("db", "cache", "web")}
    web = WHERE.services["web"]
    assert firewalls == {
        "db": {"AGENT_SANDBOX_CLIENTS": f"{BOX}:5432 {web}:5432 {BOX}:5433 {web}:5433"},
        "cache": {"AGENT_SANDBOX_CLIENTS": f"{BOX}:6379 {web}:6379"},
        "web": {
            "AGENT_SANDBOX_BESIDE": f"{AT_DB}:5432 {AT_DB}:5433 {AT_CACHE}:6379",
            "AGENT_SANDBOX_CLIENTS": "",
        },
    }
    for name in ("firewall", "agent"):
        assert STACK.service(name).environment["AGENT_SANDBOX_BESIDE"] == f"{AT_DB}:5432 {AT_DB}:5433 {AT_CACHE}:6379"


def test_the_sandbox_is_not_on_the_services_network_if_none_opens_a_port() -> None:
    stack = made(Beside(name="worker", image="x", limits=DEFAULT))
    assert [place.network for place in stack.service("firewall").networks] == ["sandbox"]
    assert "AGENT_SANDBOX_BESIDE" not in stack.service("agent").environment


def test_only_clients_of_a_service_have_its_name_in_their_hosts_file() -> None:
    hosts = {one.name: dict(one.extra_hosts) for one in STACK.services if one.name.startswith("firewall")}
    assert hosts == {
        "firewall": {"db": AT_DB, "cache": AT_CACHE},
        "firewall.db": {},
        "firewall.cache": {},
        "firewall.web": {"db": AT_DB, "cache": AT_CACHE},
    }


def test_a_service_waits_until_linked_services_are_healthy_or_started() -> None:
    assert STACK.service("web").depends_on[1:] == (
        Dependency(service="db", condition=Condition.HEALTHY, restart=False),
        Dependency(service="cache", condition=Condition.STARTED, restart=False),
    )


def test_the_services_have_an_internal_network_of_their_own() -> None:
    members = {one.name for one in STACK.services for place in one.networks if place.network == "beside"}
    assert members == {"firewall", "firewall.db", "firewall.cache", "firewall.web"}
    sandbox, _, beside = STACK.networks
    assert (beside.internal, beside.options, beside.subnet) == (True, sandbox.options, WHERE.subnet)
    assert beside.subnet != sandbox.subnet


def test_agent_clients_connect_to_services_without_the_proxy() -> None:
    environment = STACK.service("agent").environment
    assert environment["NO_PROXY"].split(",")[4:] == ["db", "cache", "web"]
    assert "|db|cache|web " in f"{environment['JAVA_TOOL_OPTIONS']} "
