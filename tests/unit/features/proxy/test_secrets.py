from datetime import UTC, datetime

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.features.proxy.control import OTHER
from agent_sandbox.features.proxy.secrets import Held, held_secrets
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker

PROJECT = without_directory("app-1")
LIST = "secret list --folder /state/secrets"


def test_lists_secrets_sorted_by_name(docker: FakeDocker) -> None:
    said = '[{"name": "b", "hosts": ["y.test", "x.test"], "uses": 3, "last_use": 60.5}, {"name": "a", "hosts": []}]\n'
    docker.says(LIST, out=said)
    last = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert held_secrets(DRIVER, PROJECT) == (
        Held(name="a", hosts=()),
        Held(name="b", hosts=("x.test", "y.test"), uses=3, last_use=last),
    )


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no",
        "1",
        "[1]",
        '[{"name": "a"}]',
        '[{"name": "a", "hosts": 1}]',
        '[{"name":"a","hosts":[],"expires":1e99}]',
    ],
)
def test_reports_an_invalid_answer_as_a_proxy_of_another_version(docker: FakeDocker, answer: str) -> None:
    docker.says(LIST, out=answer)
    with pytest.raises(UserError) as caught:
        held_secrets(DRIVER, PROJECT)
    assert caught.value.problems == (OTHER,)
