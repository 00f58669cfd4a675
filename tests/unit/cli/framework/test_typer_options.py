from typing import get_args

from typer.models import OptionInfo

from agent_sandbox.cli.framework import typer_options
from table_tests import each

SHARED = [name for name in dir(typer_options) if get_args(getattr(typer_options, name)) and name[0].isupper()]


@each("name", SHARED)
def test_every_option_says_what_it_does_in_a_sentence(name: str) -> None:
    (option,) = (part for part in get_args(getattr(typer_options, name)) if isinstance(part, OptionInfo))
    assert option.help
    assert option.help.endswith(".")


def test_what_a_company_needs_for_every_build_can_be_set_once() -> None:
    variables = [part.envvar for name in SHARED for part in get_args(getattr(typer_options, name))[1:]]
    assert {"AGENT_SANDBOX_EXTRA_CA", "AGENT_SANDBOX_BASE_IMAGE"} <= set(variables)
