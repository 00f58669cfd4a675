import pytest

from agent_sandbox.project.render.editor_files import added_files, listed
from table_tests import each


@each(
    ("text", "files"),
    [
        ('{"dockerComposeFile": ["compose.yaml", "db.yml", "/x/y.yml"]}', ("db.yml", "/x/y.yml")),
        ('// ours\n{"dockerComposeFile" : // more\n[ "compose.yaml" ]}', ()),
        ('{"dockerComposeFile": ["compose.yaml", 7, null]}', ()),
        ('{"dockerComposeFile": ["docker-compose.yml", "db.yml"]}', ()),  # of an earlier version: only editors use it
        ('{"dockerComposeFile": ["db.yml", "compose.yaml"]}', ()),
        ('{"dockerComposeFile": "compose.yaml"}', ()),
        ('{"dockerComposeFile": []}', ()),
        ('{"dockerComposeFile": [', ()),
        ("", ()),
    ],
)
def test_added_files_are_the_files_after_ours(text: str, files: tuple[str, ...]) -> None:
    assert added_files(text) == files


@pytest.mark.parametrize("present", [None, 7, {}, [[]]])
def test_values_that_are_not_names_are_ignored(present: object) -> None:
    assert listed(present) == []
