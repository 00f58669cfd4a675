from typing import get_args

import pytest
from typer.models import OptionInfo

from agent_sandbox.cli import options

SHARED = [name for name in dir(options) if get_args(getattr(options, name)) and name[0].isupper()]


@pytest.mark.parametrize("name", SHARED)
def test_every_option_says_what_it_does_in_a_sentence(name: str) -> None:
    (option,) = (part for part in get_args(getattr(options, name)) if isinstance(part, OptionInfo))
    assert option.help
    assert option.help.endswith(".")
