import sys

import pytest

from agent_sandbox.proxy.leftout import LEFT_OUT, leave_out
from imports import brought_along
from vectors import each


def test_the_proxy_loads_nothing_of_quic() -> None:
    loaded = {name.partition(".")[0] for name in brought_along("import agent_sandbox.proxy.run")}
    assert "mitmproxy" in loaded
    assert loaded & {"aioquic", "pylsqpack", "service_identity"} == set()


@each("name", LEFT_OUT)
def test_what_stands_there_can_not_be_used(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, name, raising=False)
        leave_out()
        module = sys.modules[name]
        assert {one for one in vars(module) if not one.startswith("__")} == set(LEFT_OUT[name])
        for one in LEFT_OUT[name]:
            with pytest.raises(TypeError, match="takes no arguments"):
                vars(module)[one]("context")


@each("name", LEFT_OUT)
def test_what_is_loaded_already_stays(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, sys)
        leave_out()
        assert sys.modules[name] is sys
