from agent_sandbox.cli.framework.parameters import Argument, Option


def test_an_option_is_spelled_as_its_parameter_unless_it_has_a_name() -> None:
    assert Option(help="x").spelled("on_conflict") == "--on-conflict"
    assert Option(help="x", name="--json").spelled("as_json") == "--json"


def test_both_are_values() -> None:
    assert Argument(help="x") == Argument(help="x")
    assert Option(help="x") != Option(help="y")
