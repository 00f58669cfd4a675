from agent_sandbox.policy.ambiguity import Ambiguous


def test_a_doubt_says_what_was_doubtful() -> None:
    assert str(Ambiguous("the path holds a fragment")) == "the path holds a fragment"
