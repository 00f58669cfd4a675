import sys

import pytest

from agent_sandbox.proxy.import_stubs import STUBBED, install_stubs
from imports import brought_along
from table_tests import each


def test_the_proxy_does_not_import_quic_libraries() -> None:
    loaded = {name.partition(".")[0] for name in brought_along("import agent_sandbox.proxy.mitm.session")}
    assert "mitmproxy" in loaded
    assert loaded & {"aioquic", "pylsqpack", "service_identity"} == set()


@each("name", STUBBED)
def test_stubbed_names_cannot_be_used(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, name, raising=False)
        install_stubs()
        module = sys.modules[name]
        assert {one for one in vars(module) if not one.startswith("__")} == set(STUBBED[name])
        for one in STUBBED[name]:
            with pytest.raises(TypeError, match="takes no arguments"):
                vars(module)[one]("context")


@each("name", STUBBED)
def test_does_not_replace_imported_modules(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, sys)
        install_stubs()
        assert sys.modules[name] is sys
