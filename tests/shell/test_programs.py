"""firewall and entrypoint: they run their steps in order, and sourcing them runs nothing."""

import pytest

from bash_harness import Shell

STORIES = {
    "firewall": [
        "forget_ready",
        "deny_everything",
        "check_proxy_variables",
        "check_beside_variables",
        "open_the_way_to_the_proxy",
        "notice_soon_that_the_proxy_is_gone",
        "lead_the_rest_nowhere",
        "check_policies",
        "ask_the_proxy_for_names",
        "check_direct_ways",
        "check_proxy_denies",
        "count_refusals",
        "write_trust_store",
        "mark_ready",
        "step_down_and_wait",
    ],
    "firewall-beside": [
        "forget_ready",
        "deny_everything",
        "check_beside_variables",
        "open_the_ports",
        "check_policies",
        "leave_no_name_server",
        "check_closed",
        "mark_ready",
        "step_down_and_wait",
    ],
    "entrypoint": [
        "forget_ready",
        "check_proxy_variables",
        "check_proxy_denies",
        "check_protected",
        "check_walls",
        "end_start_checks",
        "check_workspace",
        "remove_stale_dotfiles",
        "link_dotfiles",
        "link_settings",
        "configure_mcp",
        "mark_ready",
    ],
}


def told(program: str, *, failing: str = "") -> str:
    """Return a script in which every step only prints its name, and one of them fails."""
    verbs = (f"{verb}() {{ echo {verb}; {'return 3' if verb == failing else ''}\n}}; " for verb in STORIES[program])
    return "".join(verbs)


@pytest.mark.parametrize("program", STORIES)
def test_sourcing_does_nothing(shell: Shell, program: str) -> None:
    done = shell.run("bash", "-c", f"source {shell.image}/{program}; declare -F main")
    assert ("main\n", "") == (done.stdout, done.stderr)


@pytest.mark.parametrize("program", STORIES)
def test_runs_the_steps_in_order_and_the_entrypoint_then_runs_its_command(shell: Shell, program: str) -> None:
    done = shell.run("bash", "-c", f"source {shell.image}/{program}; {told(program)} main echo 'a  b'")
    asked_for = ["a  b"] if program == "entrypoint" else []
    assert STORIES[program] + asked_for == done.stdout.splitlines()


# These steps use the agent's home, which outlives the container: files there must not prevent a start.
IN_ITS_HOME = (
    "remove_stale_dotfiles",
    "link_dotfiles",
    "link_settings",
    "configure_mcp",
    "link_caches",
    "write_identity",
)


@pytest.mark.parametrize("verb", IN_ITS_HOME)
def test_a_failed_step_in_the_agents_home_does_not_stop_the_start(shell: Shell, verb: str) -> None:
    script = f"source {shell.image}/entrypoint; {told('entrypoint')} {verb}() {{ false; }}; main echo started"
    done = shell.run("bash", "-c", script, check=False)
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["mark_ready", "started"])
    assert done.stderr.startswith("agent-sandbox: ")


@pytest.mark.parametrize(
    ("program", "verb"),
    [(program, verb) for program, verbs in STORIES.items() for verb in verbs if verb not in IN_ITS_HOME],
)
def test_any_other_failed_step_stops_the_start(shell: Shell, program: str, verb: str) -> None:
    script = f"source {shell.image}/{program}; {told(program, failing=verb)} main echo started"
    done = shell.run("bash", "-c", script, check=False)
    assert done.returncode == 78
    assert STORIES[program][: STORIES[program].index(verb) + 1] == done.stdout.splitlines()
    assert done.stderr.startswith(f"agent-sandbox: {program} stopped at line ")
