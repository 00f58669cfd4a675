from agent_sandbox.policytools.lint.finding import Finding


def test_a_finding_is_a_value() -> None:
    assert Finding(line=1, what="a", why="b", fix="c") == Finding(line=1, what="a", why="b", fix="c")
