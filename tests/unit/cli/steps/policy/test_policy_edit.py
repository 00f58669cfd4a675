from pathlib import Path

from agent_sandbox.cli.steps.policy.policy_edit import difference


def test_a_difference_shows_the_new_line_whatever_ends_it() -> None:
    expected = "--- a/policy.yaml\n+++ b/policy.yaml\n@@ -1,2 +1,3 @@\n allow:\n   - a\n+  - b"
    assert difference(Path("policy.yaml"), "allow:\r\n  - a", "allow:\r\n  - a\r\n  - b") == expected
    assert difference(Path("policy.yaml"), "allow:\n  - a\n", "allow:\n  - a\n  - b\n") == expected
