from agent_sandbox.policy.errors import InvalidValue


def test_an_invalid_value_has_what_is_wrong_and_a_hint() -> None:
    invalid = InvalidValue("`*` would allow every host", "name the hosts")
    assert (invalid.what, invalid.hint) == ("`*` would allow every host", "name the hosts")
