from datetime import UTC, datetime

from agent_sandbox.engines.container import Container
from agent_sandbox.features.stack.cut_off import cut_off
from table_tests import each


def container(service: str, state: str, second: int | None) -> Container:
    started = None if second is None else datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    return Container(id=service, service=service, image="x", state=state, started=started)


@each(
    ("firewall", "service", "lost"),
    [
        (("running", 1), ("running", 2), ()),
        (("running", 3), ("running", 2), ("db",)),
        (("exited", 1), ("running", 2), ("db",)),
        (("running", 3), ("exited", 2), ()),
        (("running", None), ("running", 2), ()),
    ],
)
def test_a_service_is_cut_off_if_its_firewall_stopped_or_started_later(
    firewall: tuple[str, int | None], service: tuple[str, int | None], lost: tuple[str, ...]
) -> None:
    agent = (container("firewall", "running", 9), container("agent", "running", 2))
    assert cut_off((container("firewall.db", *firewall), container("db", *service), *agent)) == lost
