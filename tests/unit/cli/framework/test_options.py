from typing import get_args

from agent_sandbox.cli.framework import options
from agent_sandbox.cli.framework.parameters import Option
from table_tests import each

SHARED = [
    part
    for name in dir(options)
    for part in get_args(getattr(options, name))
    if name[0].isupper() and isinstance(part, Option)
]


@each("option", SHARED)
def test_every_option_has_a_help_sentence(option: Option) -> None:
    assert option.help.endswith(".")


def test_a_variable_sets_the_extra_ca() -> None:
    assert "AGENT_SANDBOX_EXTRA_CA" in {option.envvar for option in SHARED}
