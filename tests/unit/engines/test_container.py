from agent_sandbox.engines.container import Container
from table_tests import each


@each(
    ("state", "health", "ready", "condition"),
    [
        ("running", "", True, "running"),
        ("running", "healthy", True, "healthy"),
        ("running", "starting", False, "starting"),
        ("running", "unhealthy", False, "unhealthy"),
        ("exited", "unhealthy", False, "exited with code 7"),
        ("restarting", "", False, "restarting"),
        ("created", "", False, "created"),
    ],
)
def test_ready_and_condition_follow_state_and_health(state: str, health: str, *, ready: bool, condition: str) -> None:
    container = Container(id="1", service="x", image="y", state=state, health=health, exit_code=7)
    assert (container.ready, container.condition) == (ready, condition)


def test_the_condition_names_out_of_memory() -> None:
    ended = Container(id="1", service="x", image="y", state="exited", exit_code=137, out_of_memory=True)
    assert ended.condition == "exited with code 137, out of memory"
