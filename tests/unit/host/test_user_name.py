import os

import pytest

from agent_sandbox.host import user_name as subject
from agent_sandbox.host.user_name import user_name


def test_returns_the_uid_of_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "getuser", lambda: "ana")
    assert user_name() == "ana"

    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr(subject, "getuser", nameless)
    assert user_name() == str(os.getuid())
