import gc
from contextlib import suppress

import pytest

from agent_sandbox.policyfile.gc_pause import collector_paused


@pytest.mark.parametrize("fault", [None, ValueError])
def test_restores_the_state_of_the_garbage_collector(fault: type[Exception] | None) -> None:
    def paused() -> bool:
        with suppress(ValueError), collector_paused():
            assert not gc.isenabled()
            if fault:
                raise fault
        return not gc.isenabled()

    assert not paused()
    gc.disable()
    try:
        assert paused()
    finally:
        gc.enable()
