from agent_sandbox.backends.compose.render import render_stack_file
from agent_sandbox.backends.renderers import DEFAULT, RENDERERS, load_renderer


def test_each_renderer_of_the_table_loads() -> None:
    assert {name: load_renderer(name) for name in RENDERERS} == {DEFAULT: render_stack_file}
