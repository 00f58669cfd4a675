from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.model import Service, Stack


def service(name: str, image: str) -> Service:
    return Service(
        name=name,
        image=image,
        user="1:1",
        read_only=True,
        init=True,
        restart="no",
        stop_grace_seconds=1,
        limits=Limits(memory=1, cpus=1, pids=1, files=1),
    )


STACK = Stack(
    name="p-1",
    agents=("example",),
    services=(service("a", "one"), service("b", "two"), service("c", "two")),
    networks=(),
    volumes=(),
)


def test_finds_a_service_by_its_name() -> None:
    assert STACK.service("b") is STACK.services[1]


def test_lists_each_image_once() -> None:
    assert STACK.images == ("one", "two")


def test_a_service_has_no_capabilities_by_default() -> None:
    assert STACK.service("a").capabilities == ()
