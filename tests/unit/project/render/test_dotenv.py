from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.project.render.dotenv import COMMENT, assignments, remove_variables, set_variables

FILE = """\
# ours
DB_URL="postgres://x" # the database
export TOKEN='a b'
EMPTY=
"""


def values(text: str) -> dict[str, str]:
    return {key: found.value for key, found in assignments(text).items()}


def test_reads_every_form_of_assignment() -> None:
    text = FILE + "A = b # c\nB: d\nC=e#f\n  D=g\r\n"
    assert values(text) == {
        "DB_URL": "postgres://x",
        "TOKEN": "a b",
        "EMPTY": "",
        "A": "b",
        "B": "d",
        "C": "e#f",
        "D": "g",
    }


def test_the_last_assignment_counts() -> None:
    assert values("A=1\nA=2\n") == {"A": "2"}


def test_ignores_assignments_inside_quoted_values() -> None:
    assert values('KEY="-----BEGIN\nA=1\n"\nB=2\n') == {"KEY": "-----BEGIN\nA=1\n", "B": "2"}


def test_ignores_assignments_in_comments() -> None:
    assert values("# A=1\n#B=2\n") == {}


def test_adds_missing_variables_at_the_end() -> None:
    assert set_variables(FILE, {"A": "1", "B": "2"}) == f"{FILE}\n{COMMENT}\nA=1\nB=2\n"


def test_adds_a_missing_newline_at_the_end_of_the_file() -> None:
    assert set_variables("X=1", {"A": "1"}) == f"X=1\n\n{COMMENT}\nA=1\n"


def test_fills_an_empty_file() -> None:
    assert set_variables("", {"A": "1"}) == f"{COMMENT}\nA=1\n"


def test_changes_existing_variables_in_place() -> None:
    assert set_variables("A=1\nX='y' # z\nB=2\n", {"X": "n"}) == "A=1\nX=n # z\nB=2\n"


def test_keeps_the_comment_after_a_changed_value() -> None:
    assert set_variables("A=1  # why\n", {"A": "2"}) == "A=2  # why\n"


def test_keeps_windows_line_endings() -> None:
    assert set_variables("A=1\r\nB=2\r\n", {"A": "2", "C": "3"}) == f"A=2\r\nB=2\r\n\r\n{COMMENT}\r\nC=3\r\n"


def test_does_not_touch_variables_with_the_wanted_value() -> None:
    assert set_variables("A='1'\n", {"A": "1"}) == "A='1'\n"


EARLIER = "# Plain `docker compose` finds the agent's sandbox by these two lines. Written by agent-sandbox."


def test_removes_variables_with_their_lines_and_our_comment() -> None:
    for comment in (COMMENT, EARLIER):
        for end in ("\n", "\r\n"):
            text = f"X=1 # y\n\n{comment}\nA=1 # z\nB=2\nC=3\n".replace("\n", end)
            assert remove_variables(text, {"A", "B"}) == "X=1 # y\nC=3\n".replace("\n", end)


def test_keeps_other_comments_and_earlier_assignments() -> None:
    assert remove_variables("# mine\nA=0\nA=1\n", {"A"}) == "# mine\nA=0\n"


def test_removes_a_last_line_without_a_newline() -> None:
    assert remove_variables("X=1\nA=1", {"A", "B"}) == "X=1\n"


names = st.builds("{}{}".format, st.sampled_from("ABZ_"), st.text("AZ_09", max_size=8))
plain = st.text("az09./-", max_size=12)


@given(st.dictionaries(names, plain, max_size=4), st.dictionaries(names, plain, max_size=4))
def test_set_variables_changes_only_the_given_variables(before: dict[str, str], wanted: dict[str, str]) -> None:
    text = "".join(f"{key}={value}\n" for key, value in before.items())
    assert values(set_variables(text, wanted)) == before | wanted


@given(st.text())
def test_keeps_every_line_of_the_user(text: str) -> None:
    assert set_variables(text, {"NEW_ONE_HERE": "1"}).startswith(text)


@given(st.text())
def test_removing_what_was_added_restores_every_line(text: str) -> None:
    added = set_variables(text, {"NEW_ONE_HERE": "1"})
    assert remove_variables(added, {"NEW_ONE_HERE"}).removeprefix(text) in ("", "\n", "\r\n")
