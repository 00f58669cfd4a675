from pathlib import Path

from agent_sandbox.features.policy.edit import difference


def test_a_diff_shows_the_added_line_with_any_line_ending() -> None:
    expected = "--- a/policy.yaml\n+++ b/policy.yaml\n@@ -1,2 +1,3 @@\n allow:\n   - a\n+  - b"
    assert difference(Path("policy.yaml"), "allow:\r\n  - a", "allow:\r\n  - a\r\n  - b") == expected
    assert difference(Path("policy.yaml"), "allow:\n  - a\n", "allow:\n  - a\n  - b\n") == expected
