from agent_sandbox.runtime.compose.compose_log import shown_text
from table_tests import each


@each(
    ("line", "expected"),
    [
        (" Container app-1-proxy-1  Creating", None),
        (" Container app-1-proxy-1  Started", "proxy started"),
        (" Container app-1-agent-1  Healthy", "agent ready"),
        (" Container app-1-firewall-1  Error", "firewall failed"),
        (" Container other  Removed", "other removed"),
        (" Network app-1_sandbox  Created", None),
        (" Network app-1_sandbox  Removed", "sandbox removed"),
        (' Volume "app-1_state"  Removed', "state removed"),
        ("dependency failed   to start", "dependency failed to start"),
        ("", None),
        ("Deleted Volumes:", None),
        ("app-1_old", "old removed"),
        ("Total reclaimed space: 0B", None),
        ("Going to remove app-1-proxy-1", None),
    ],
)
def test_shortens_compose_output_to_the_lines_that_a_user_needs(line: str, expected: str | None) -> None:
    assert shown_text(line, "app-1") == expected
