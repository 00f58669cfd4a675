from pathlib import Path

from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.project.trust_snapshot import Standing
from agent_sandbox.runtime.trust.project_file_diff import widens
from table_tests import each


def standing(text: str | None) -> Standing:
    files = {} if text is None else {PROJECT_FILE: text}
    return Standing(root=Path("/p"), owner=None, stack_files=(), files=files)


@each(
    ("now", "before", "lines"),
    [
        (None, None, ()),
        ("limits: {memory: 9g}", None, ("limits: memory 9g, before 8g; the default is 8g",)),
        ("limits: {memory: 4g}", None, ()),
        (None, "limits: {memory: 4g}", ("limits: memory 8g, before 4g; the default is 8g",)),
        (
            "limit: {}",
            None,
            (f"cannot be read: {PROJECT_FILE}:1:1: unknown key 'limit'; did you mean `limits`?",),
        ),
        ("agents: [unknown-here]", None, ("agents: unknown-here",)),
    ],
)
def test_lists_settings_of_the_project_file_that_widen(
    now: str | None, before: str | None, lines: tuple[str, ...]
) -> None:
    assert widens(standing(now), standing(before)) == lines
