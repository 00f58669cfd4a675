from agent_sandbox.project.render.ignore import COMMENT, ignored, ignoring, names, no_longer_ignoring
from table_tests import each


@each(("before", "end"), [("", ""), ("*.log", "\n"), ("*.log\n", ""), ("*.log\r\n", "")])
def test_adds_paths_below_a_comment_with_the_line_endings_of_the_file(before: str, end: str) -> None:
    lines = f"{COMMENT}\n/a\n/b/\n"
    assert ignoring(before, ["a", "b/"]) == before + end + (lines.replace("\n", "\r\n") if "\r" in before else lines)


def test_adds_nothing_the_second_time() -> None:
    once = ignoring("x\n", ["a", "b/"])
    assert ignoring(once, ["a", "b/"]) == once
    assert ignoring("a\n/b/\n", ["a", "b/"]) == "a\n/b/\n"


@each(
    ("text", "left"),
    [
        (f"{COMMENT}\n/a\n/b\n", f"{COMMENT}\n/b\n"),
        (f"{COMMENT}\r\n/b\r\n/a\r\n*.log\r\n", f"{COMMENT}\r\n/b\r\n*.log\r\n"),
        (f"/a\n{COMMENT}\n/b\n# mine\n/a\n", f"/a\n{COMMENT}\n/b\n# mine\n/a\n"),
        (f"*.log\n{COMMENT}\n/a\n*.tmp\n", "*.log\n*.tmp\n"),
        (f"*.log\n{COMMENT}\n/a\n", "*.log\n"),
        ("/a\n", "/a\n"),
        ("", ""),
    ],
)
def test_removes_only_lines_below_the_comment(text: str, left: str) -> None:
    assert no_longer_ignoring(text, ["a"]) == left


def test_each_line_matches_exactly_one_path() -> None:
    lines = ignored(" /a \nb\n")
    assert [path for path in ("a", "b", "a/b", "c") if names(path, lines)] == ["a", "b"]
