"""sessions.sh: a signal from the host machine reaches only the command of one session."""

import pytest

from bash_harness import Shell

# As the Docker engine starts it: as the leader of a process group.
ENTER = "setsid bash -ec 'source {lib}; sessions={home}/sessions; record_session; env; exec {command}' & command=$!; "


def start(shell: Shell, command: str) -> str:
    """Return a script that starts a command as `enter` does; `$command` is its process."""
    lib = shell.image / "lib" / "sessions.sh"
    started = ENTER.format(lib=lib, home=shell.home, command=command)
    return f"sessions={shell.home}/sessions; AGENT_SANDBOX_SESSION=abc {started}"


def test_a_signal_reaches_the_process_group_of_its_session_and_no_other(shell: Shell) -> None:
    script = f"""
    mkdir $HOME/sessions; setsid sleep 60 & other=$!
    echo of-another-session >$HOME/sessions/$other
    {start(shell, 'sh -c "sleep 60; echo never"')}
    signal_session TERM abc
    wait $command || echo $?
    kill -0 $other && kill $other
    """
    done = shell("sessions", script)
    assert done.stdout.splitlines()[-1] == "143"
    assert "AGENT_SANDBOX_SESSION" not in done.stdout  # the agent's programs do not inherit it


def test_removes_the_records_of_ended_commands(shell: Shell) -> None:
    script = f"mkdir $HOME/sessions; echo old >$HOME/sessions/99999999; {start(shell, 'sleep 60')}"
    shell("sessions", script + "while [[ -e $sessions/99999999 ]]; do sleep 0.01; done; kill $command")


@pytest.mark.parametrize("obstacle", ["touch $HOME/sessions", "mkdir $HOME/sessions; mkfifo $HOME/sessions/$$"])
def test_a_command_runs_even_if_its_session_cannot_be_recorded(shell: Shell, obstacle: str) -> None:
    lib = shell.image / "lib" / "sessions.sh"
    script = f"{obstacle}; source {lib}; sessions=$HOME/sessions; record_session; echo ran ${{AGENT_SANDBOX_SESSION-}}"
    done = shell("sessions", script, AGENT_SANDBOX_SESSION="abc")
    shell("sessions", "[[ ! -d $HOME/sessions ]] || timeout 5 cat $HOME/sessions/*")  # ends the waiting command
    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_signalling_an_unknown_session_fails_despite_unreadable_records(shell: Shell) -> None:
    script = "sessions=$HOME/sessions; sleep() { :; }; mkdir $sessions; mkfifo $sessions/1; mkdir $sessions/2; "
    assert shell("sessions", script + "signal_session TERM abc", check=False).returncode == 1


def test_pass_signal_takes_the_session_and_then_the_signal(shell: Shell) -> None:
    program = shell.image / "pass-signal"
    done = shell("sessions", f'source {program}; signal_session() {{ echo "$@"; }}; main abc TERM')
    assert done.stdout == "TERM abc\n"
