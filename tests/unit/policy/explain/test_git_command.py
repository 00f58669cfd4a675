from agent_sandbox.policy.explain.git_command import git_command
from policy_texts import RequestOf
from table_tests import each

PUSH = "git-receive-pack"


@each(
    ("line", "command"),
    [
        (f"GET https://github.com/o/r.git/info/refs?service={PUSH}", "agent-sandbox secret setup github --repo o/r"),
        (f"POST https://github.com/O/r.s/{PUSH}", "agent-sandbox secret setup github --repo O/r.s"),
        (f"POST http://github.com/o/r/{PUSH}", f"agent-sandbox policy allow 'POST http://github.com/o/r/{PUSH}'"),
        (f"POST https://github.com/r/{PUSH}", f"agent-sandbox policy allow 'POST https://github.com/r/{PUSH}'"),
        (f"POST https://github.com/--x/r/{PUSH}", f"agent-sandbox policy allow 'POST https://github.com/--x/r/{PUSH}'"),
        (f"POST https://a.test:8443/r/{PUSH}", f"agent-sandbox policy allow 'POST https://a.test:8443/r/{PUSH}'"),
        (
            f"POST https://a.test/it's/$(x)/{PUSH}",
            f"""agent-sandbox policy allow 'POST https://a.test/it'"'"'s/$(x)/{PUSH}'""",
        ),
        (f"POST https://a.test/o/*/{PUSH}", ""),
        (f"POST https://a.test/o%2Fr/{PUSH}", ""),
        ("GET https://github.com/o/r.git/info/refs?service=git-upload-pack", ""),
    ],
)
def test_the_command_names_the_repository_of_the_push(request_of: RequestOf, line: str, command: str) -> None:
    assert git_command(request_of(line), {"github.com": "github"}, ()) == command


@each(
    ("line", "command"),
    [
        (
            "GET https://github.com/o/r.git/info/refs?service=git-upload-pack",
            "agent-sandbox secret setup github --read o/r",
        ),
        ("POST https://github.com/o/r/git-upload-pack", "agent-sandbox secret setup github --read o/r"),
        ("POST https://github.com/o;x/r/git-upload-pack", ""),
        ("GET https://a.test/o/r.git/info/refs?service=git-upload-pack", ""),
        ("GET https://github.com/o/r", ""),
    ],
)
def test_suggests_secret_setup_for_a_fetch_from_a_git_server_of_a_named_service(
    request_of: RequestOf, line: str, command: str
) -> None:
    assert git_command(request_of(line), {"github.com": "github"}, {"service github"}) == command
