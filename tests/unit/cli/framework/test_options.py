from typing import get_args

import pytest

from agent_sandbox.cli.framework import options
from agent_sandbox.cli.framework.parameters import Option


@pytest.mark.parametrize("name", ["ProjectPath", "Json", "DryRun"])
def test_every_option_says_what_it_does_in_a_sentence(name: str) -> None:
    (option,) = (part for part in get_args(getattr(options, name)) if isinstance(part, Option))
    assert option.help.endswith(".")
