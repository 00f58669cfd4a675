from agent_sandbox.counted import counted, times
from table_tests import each


@each(
    ("text", "shown"),
    [
        (counted(0, "rule"), "0 rules"),
        (counted(1, "rule"), "1 rule"),
        (counted(1, "more rule"), "1 more rule"),
        (counted(2, "rule"), "2 rules"),
        (times(0), "0 times"),
        (times(1), "once"),
        (times(2), "2 times"),
    ],
)
def test_only_one_is_singular(text: str, shown: str) -> None:
    assert text == shown
