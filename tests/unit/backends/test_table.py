from agent_sandbox.backends.table import BACKENDS, DEFAULT


def test_each_row_is_the_module_of_that_name() -> None:
    names = {name: f"agent_sandbox.backends.{name}" for name in BACKENDS}
    assert {name: getattr(backend, "__name__", "") for name, backend in BACKENDS.items()} == names


def test_the_default_is_in_the_table() -> None:
    assert DEFAULT in BACKENDS
