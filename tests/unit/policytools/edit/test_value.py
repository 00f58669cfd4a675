from msgspec.structs import replace

from agent_sandbox.policytools.edit.value import set_value
from table_tests import each


def changed(text: str, path: tuple[str, ...], value: str) -> str:
    """Return the text with what came in between `<` and `>`."""
    change = set_value(text, path, value)
    return replace(change, text=f"<{change.text}>").into(text) if change else "no usual way"


@each(
    ("text", "expected"),
    [
        # There is nothing yet.
        ("", "<a:\n  b: 1g\n>"),
        ("# c", "# c<\na:\n  b: 1g>"),
        ("---\n...\n", "---\n<a:\n  b: 1g\n>...\n"),
        # The section is not there.
        ("x: 1\n", "x: 1\n<a:\n  b: 1g\n>"),
        ("x: 1\n\ny: 2\n", "x: 1\n\ny: 2\n<\na:\n  b: 1g\n>"),
        ("{x: 1}", "{x: 1<, a: {b: 1g}>}"),
        # It is empty.
        ("a:\n", "a:\n<  b: 1g\n>"),
        ("a: # c\nx: 1\n", "a: # c\n<  b: 1g\n>x: 1\n"),
        ("a: ~ # c\n", "a: <{b: 1g}> # c\n"),
        ("a: {}\n", "a: {<b: 1g>}\n"),
        # The key is not there.
        ("a:\n    x: 1 # c\n# d\n", "a:\n    x: 1 # c\n<    b: 1g\n># d\n"),
        ("a: {x: 1}\n", "a: {x: 1<, b: 1g>}\n"),
        ("a:\r\n  x: 1\r\n", "a:\r\n  x: 1\r\n<  b: 1g\r\n>"),
        # It is.
        ("a:\n  b: 2g # c\n", "a:\n  b: <1g> # c\n"),
        ("a:\n  b: # c\n", "a:\n  b:< 1g> # c\n"),
        ("a:\n  b: ~\n", "a:\n  b: <1g>\n"),
        ("a: {b: [1, 2], x: 1}\n", "a: {b: <1g>, x: 1}\n"),
        ("a:\n  b:\n  - 1\n  - 2 # c\n  x: 1\n", "a:\n  b:\n  <1g> # c\n  x: 1\n"),
        # The section is something else.
        ("a: 1\n", "no usual way"),
        ("word\n", "no usual way"),
    ],
)
def test_one_change_gives_the_key_its_value(text: str, expected: str) -> None:
    assert changed(text, ("a", "b"), "1g") == expected


def test_a_key_at_the_top_is_set_in_place() -> None:
    assert changed("a: [1]\nb: 2\n", ("a",), "x y") == 'a: <"x y">\nb: 2\n'
