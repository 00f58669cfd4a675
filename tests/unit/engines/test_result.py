from agent_sandbox.engines.result import CheckResult, Status, fail, ok, warn


def test_ok_warn_and_fail_make_results_of_their_status() -> None:
    assert ok("a", "b") == CheckResult(name="a", status=Status.OK, what="b", hint="")
    assert warn("a", "b", "c") == CheckResult(name="a", status=Status.WARN, what="b", hint="c")
    assert fail("a", "b", "c") == CheckResult(name="a", status=Status.FAIL, what="b", hint="c")
