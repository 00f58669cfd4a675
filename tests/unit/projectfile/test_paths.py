from agent_sandbox.projectfile.paths import LONGEST_PATH, is_below, is_script
from table_tests import each


@each(
    ("path", "below", "script"),
    [
        ("a", True, True),
        (".devcontainer/setup.sh", True, True),
        ("a b/c", True, False),
        ("a/../b", False, False),
        ("./a", False, False),
        ("a//b", False, False),
        ("/a", False, False),
        ("", False, False),
        ("a\n", False, False),
        (".git/hooks/x", True, False),
        ("-a", True, False),
        ("a/$b", True, False),
        ("a" * LONGEST_PATH, True, True),
        ("a" * (LONGEST_PATH + 1), False, False),
    ],
)
def test_a_script_is_a_plain_path_in_the_project(path: str, *, below: bool, script: bool) -> None:
    assert (is_below(path), is_script(path)) == (below, script)
