from agent_sandbox.policy.unfit import Unfit


def test_what_is_unfit_says_what_and_how_to_mend_it() -> None:
    unfit = Unfit("`*` would allow every host", "name the hosts")
    assert (unfit.what, unfit.hint) == ("`*` would allow every host", "name the hosts")
