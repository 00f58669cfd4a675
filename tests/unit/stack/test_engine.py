from agent_sandbox.stack.engine import OWN_STACKS, STACK_FILE


def test_our_file_has_a_name_that_the_engines_command_knows() -> None:
    assert STACK_FILE in OWN_STACKS
