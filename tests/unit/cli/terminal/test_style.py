import io

from agent_sandbox.cli.terminal.style import STYLES, VARIABLE, painted, parts_of, styled, wants_colour
from fake_tty import Screen
from table_tests import each

# What xterm, GNOME, macOS and Windows show on white (1, 3, 5, 6, 7 are hard to read on one of both) and on black.
READABLE = {"1", "31", "32", "35"}


@each(
    ("environ", "terminal", "pipe"),
    [
        ({}, True, False),
        ({"TERM": "xterm-256color"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "3", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "false"}, False, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR_FORCE": ""}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "1"}, True, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, True),
        ({VARIABLE: "always", "NO_COLOR": "1", "TERM": "dumb"}, True, True),
        ({VARIABLE: "never", "FORCE_COLOR": "1"}, False, False),
        ({VARIABLE: "auto"}, True, False),
        ({VARIABLE: "auto", "NO_COLOR": "1"}, False, False),
        ({VARIABLE: "purple"}, True, False),
    ],
)
def test_the_option_overrides_variables_and_variables_override_the_terminal(
    environ: dict[str, str], *, terminal: bool, pipe: bool
) -> None:
    assert (wants_colour(Screen(), environ), wants_colour(io.StringIO(), environ)) == (terminal, pipe)


def test_a_line_equals_its_plain_text() -> None:
    line = styled("a ", ("deny", "deny"), " b")
    assert line == "a deny b"
    assert parts_of(line) == (("a ", ""), ("deny", "deny"), (" b", ""))
    assert parts_of("x") == (("x", ""),)
    assert f"{line}!" == "a deny b!"


def test_text_that_was_joined_to_a_line_has_no_style() -> None:
    assert parts_of(styled(("a", "deny")) + "b") == (("ab", ""),)


def test_uses_only_colours_that_are_readable_on_light_and_dark() -> None:
    assert {code for codes in STYLES.values() for code in codes.split(";")} <= READABLE


def test_each_part_resets_its_style() -> None:
    assert painted(iter((("a  ", "allow"), ("b", ""), ("  ", "deny"), ("c", "deny")))) == (
        "\x1b[32ma\x1b[0m  b  \x1b[1;31mc\x1b[0m"
    )
