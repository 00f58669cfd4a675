import pytest

from agent_sandbox.engines.renderers import DEFAULT, RENDERERS, load_renderer
from imports import brought_along
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of


@pytest.mark.parametrize("name", RENDERERS)
def test_each_renderer_writes_a_stack(name: str) -> None:
    stack = stack_of()
    assert stack.name in load_renderer(name)(TEMPLATES, stack, AGENTS, WORKSPACE)


def test_the_default_renderer_is_in_the_table() -> None:
    assert DEFAULT in RENDERERS


def test_importing_the_table_imports_no_renderer() -> None:
    assert not {*RENDERERS.values()} & brought_along("import agent_sandbox.engines.renderers")
