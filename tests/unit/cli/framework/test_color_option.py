from agent_sandbox.cli.framework.color_option import split_color, wrong_color
from table_tests import each


@each(
    ("argv", "rest", "when"),
    [
        ("status", "status", None),
        ("--color never status", "status", "never"),
        ("status --color=always --json", "status --json", "always"),
        ("policy --color auto check", "policy check", "auto"),
        ("status --color never --color always", "status", "always"),
        ("status --color", "status", ""),
        ("status --color=", "status", ""),
        ("status --colour x", "status --colour x", None),
        # What follows `exec` or `--` belongs to the program in the sandbox.
        ("exec ls --color", "exec ls --color", None),
        ("--color never exec -- ls --color", "exec -- ls --color", "never"),
        ("run claude -- --color x", "run claude -- --color x", None),
        ("run --color never claude -- --color x", "run claude -- --color x", "never"),
        ("policy exec --color never", "policy exec", "never"),
    ],
)
def test_accepts_color_anywhere_before_another_programs_arguments(argv: str, rest: str, when: str | None) -> None:
    assert split_color(argv.split()) == (rest.split(), when)


@each("when", ["auto", "always", "never", None])
def test_accepts_its_values(when: str | None) -> None:
    assert wrong_color(when) is None


@each("when", ["", "purple", "Always", "\x1b[31m"])
def test_another_value_is_an_error_that_names_them(when: str) -> None:
    assert wrong_color(when) == f"error: --color: {when!a} is not one of auto, always, never"
