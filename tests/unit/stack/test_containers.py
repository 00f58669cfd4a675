from agent_sandbox.stack.containers import is_beside
from table_tests import each


@each(
    ("service", "expected"),
    [("db", True), ("agent", False), ("firewall", False), ("proxy", False), ("firewall.db", False)],
)
def test_a_service_of_the_project_is_beside_the_sandbox(service: str, *, expected: bool) -> None:
    assert is_beside(service) is expected
