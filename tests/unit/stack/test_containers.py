from agent_sandbox.stack.containers import is_beside
from table_tests import each


@each(
    ("service", "expected"),
    [("db", True), ("agent", False), ("firewall", False), ("proxy", False), ("firewall.db", False)],
)
def test_recognises_services_beside_the_sandbox_by_name(service: str, *, expected: bool) -> None:
    assert is_beside(service) is expected
