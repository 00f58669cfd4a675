from agent_sandbox.stack.engine import OWN_STACKS, STACK_FILE


def test_the_stack_file_has_a_name_that_docker_compose_finds() -> None:
    assert STACK_FILE in OWN_STACKS
