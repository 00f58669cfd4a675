import pytest
import yaml

from agent_sandbox.policyfile.text import document
from agent_sandbox.policytools.edit.comments import Comment, comments_by_line, remarks
from table_tests import each

TEXT = """\
# head
version: 1 # one
domains:

  - "a#b" # two
  - 'c # d'
  - e#f   #three
  # above
  ## twice
  - {host: x, # in flow
     reason: "long
       # not a comment
       end"} # after
  - host: y
    reason: |
      # text
      more
    # under
  -
deny: []
# tail"""


@pytest.mark.parametrize("loader", [document.LOADER, yaml.SafeLoader])
def test_finds_comments_outside_of_tokens(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "LOADER", loader)
    found = comments_by_line(TEXT)
    assert {line: comment.text for line, comment in found.items()} == {
        1: "head",
        2: "one",
        5: "two",
        7: "three",
        8: "above",
        9: "twice",
        10: "in flow",
        13: "after",
        18: "under",
        21: "tail",
    }
    assert [line for line, comment in found.items() if comment.alone] == [1, 8, 9, 18, 21]


def test_a_text_without_comments_has_none() -> None:
    assert comments_by_line("") == comments_by_line("domains: ['#']\n") == {}
    assert comments_by_line("#\n") == {1: Comment(text="", alone=True)}


@each(
    ("line", "expected"), [(2, "head one"), (6, ""), (7, "three"), (10, "above twice in flow"), (14, ""), (19, "under")]
)
def test_remarks_are_comments_on_the_line_or_directly_above(line: int, expected: str) -> None:
    assert " ".join(remarks(comments_by_line(TEXT), line)) == expected
