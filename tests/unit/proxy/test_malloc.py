from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc

from agent_sandbox.proxy import malloc
from agent_sandbox.proxy.malloc import keep_freed_memory

ROUNDS = 200
MEASURED = f"""
import resource
from agent_sandbox.proxy.malloc import keep_freed_memory
keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    buffers = [bytearray(262_144) for _ in range(3)]
    del buffers
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_buffers_of_a_body_are_not_mapped_anew_for_each_event() -> None:
    ran = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    pages = 3 * 262_144 // resource.getpagesize()
    assert int(ran.stdout) < 4 * pages < ROUNDS * pages


def test_a_block_that_is_large_enough_is_freed_at_once() -> None:
    tracemalloc.start()
    keep_freed_memory()
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < malloc.KEPT <= most
