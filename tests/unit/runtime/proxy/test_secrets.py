from pathlib import Path

import pytest

from agent_sandbox.backends.plan import RunCommand
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.proxy.control import OTHER
from agent_sandbox.runtime.proxy.secrets import held_secrets
from fake_docker import FakeDocker

PLAN = (RunCommand(argv=("docker", "compose", "exec"), cwd=Path("/"), project="x", purpose="asking the proxy"),)


def test_secrets_are_listed_by_name(docker: FakeDocker) -> None:
    docker.says("compose exec", out='[{"name": "b", "hosts": ["y.test", "x.test"]}, {"name": "a", "hosts": []}]\n')
    assert held_secrets(DRIVER, PLAN) == (Bound(name="a", hosts=()), Bound(name="b", hosts=("x.test", "y.test")))


@pytest.mark.parametrize("answer", ["", "no", "1", "[1]", '[{"name": "a"}]', '[{"name": "a", "hosts": 1}]'])
def test_an_answer_in_another_form_is_that_of_another_version(docker: FakeDocker, answer: str) -> None:
    docker.says("compose exec", out=answer)
    with pytest.raises(UserError) as caught:
        held_secrets(DRIVER, PLAN)
    assert caught.value.problems == (OTHER,)
