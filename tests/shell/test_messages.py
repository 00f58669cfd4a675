"""messages.sh: the messages that a user reads when a container does not start."""

from bash_harness import Shell

TRAP = """trap 'die_of_surprise "$?" firewall "$LINENO" "$BASH_COMMAND"' ERR; """


def test_die_prints_the_problem_and_the_fix(shell: Shell) -> None:
    done = shell("messages", "die 'the proxy is away' 'start it'", check=False)
    assert (78, "", "agent-sandbox: the proxy is away; start it\n") == (done.returncode, done.stdout, done.stderr)


def test_an_unexpected_failure_names_the_program_and_the_command(shell: Shell) -> None:
    done = shell("messages", TRAP + "main() { false; }; main", check=False)
    assert done.returncode == 78
    assert done.stderr.startswith("agent-sandbox: firewall stopped at line 1: false (status 1); the container does not")


def test_reports_a_failure_inside_a_pipe_once(shell: Shell) -> None:
    done = shell("messages", TRAP + "main() { echo x | die 'no' 'mend it'; }; main", check=False)
    assert (78, "agent-sandbox: no; mend it\n") == (done.returncode, done.stderr)
