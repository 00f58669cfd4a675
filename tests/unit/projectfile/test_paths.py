from agent_sandbox.projectfile.paths import LONGEST_PATH, is_below, is_image, is_script
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
def test_recognises_paths_in_the_project_and_paths_of_scripts(path: str, *, below: bool, script: bool) -> None:
    assert (is_below(path), is_script(path)) == (below, script)


@each(
    ("name", "valid"),
    [
        ("debian", True),
        ("debian:trixie-slim", True),
        ("registry.test:5000/team/debian:13", True),
        (f"debian@sha256:{'0' * 64}", True),
        ("", False),
        ("-debian", False),
        ("--build-arg=x", False),
        ("debian 13", False),
        ("debian\nUSER root", False),
        ("debian:", False),
        ("$IMAGE", False),
        ("host:5000", True),
        ("https://host/debian", False),
    ],
)
def test_recognises_valid_image_names(name: str, *, valid: bool) -> None:
    assert is_image(name) == valid
