from msgspec.structs import replace

from agent_sandbox.policytools.edit.value import set_value
from table_tests import each


def changed(text: str, path: tuple[str, ...], value: str) -> str:
    """Return the edited text, with the insertion between `<` and `>`."""
    change = set_value(text, path, value)
    return replace(change, text=f"<{change.text}>").into(text) if change else "no usual way"


@each(
    ("text", "expected"),
    [
        # The file is empty.
        ("", "<a:\n  b: 1g\n>"),
        ("# c", "# c<\na:\n  b: 1g>"),
        ("---\n...\n", "---\n<a:\n  b: 1g\n>...\n"),
        # The section is missing.
        ("x: 1\n", "x: 1\n<a:\n  b: 1g\n>"),
        ("x: 1\n\ny: 2\n", "x: 1\n\ny: 2\n<\na:\n  b: 1g\n>"),
        ("{x: 1}", "{x: 1<, a: {b: 1g}>}"),
        # The section is empty.
        ("a:\n", "a:\n<  b: 1g\n>"),
        ("a: # c\nx: 1\n", "a: # c\n<  b: 1g\n>x: 1\n"),
        ("a: ~ # c\n", "a: <{b: 1g}> # c\n"),
        ("a: {}\n", "a: {<b: 1g>}\n"),
        # The key is missing.
        ("a:\n    x: 1 # c\n# d\n", "a:\n    x: 1 # c\n<    b: 1g\n># d\n"),
        ("a: {x: 1}\n", "a: {x: 1<, b: 1g>}\n"),
        ("a:\r\n  x: 1\r\n", "a:\r\n  x: 1\r\n<  b: 1g\r\n>"),
        # The key exists.
        ("a:\n  b: 2g # c\n", "a:\n  b: <1g> # c\n"),
        ("a:\n  b: # c\n", "a:\n  b:< 1g> # c\n"),
        ("a:\n  b: ~\n", "a:\n  b: <1g>\n"),
        ("a: {b: [1, 2], x: 1}\n", "a: {b: <1g>, x: 1}\n"),
        ("a:\n  b:\n  - 1\n  - 2 # c\n  x: 1\n", "a:\n  b:\n  <1g> # c\n  x: 1\n"),
        # The section is not a mapping.
        ("a: 1\n", "no usual way"),
        ("word\n", "no usual way"),
    ],
)
def test_sets_the_value_of_a_nested_key_with_one_change(text: str, expected: str) -> None:
    assert changed(text, ("a", "b"), "1g") == expected


def test_replaces_the_value_of_a_top_level_key() -> None:
    assert changed("a: [1]\nb: 2\n", ("a",), "x y") == 'a: <"x y">\nb: 2\n'
