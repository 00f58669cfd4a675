import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.ssh_address import https_address, repository_of, require_no_ssh
from table_tests import each


@each(
    ("text", "address", "repository"),
    [
        ("git@a.test:o/r.git", "https://a.test/o/r.git", "o/r"),
        ("git@a.test:o/r", "https://a.test/o/r.git", "o/r"),
        ("ssh://git@a.test:22/o/r.git/", "https://a.test/o/r.git", "o/r"),
        ("me@git.a.test:/srv/team/r.git", "https://git.a.test/srv/team/r.git", ""),
        ("https://a.test/o/r.git", None, "o/r"),
        ("https://a.test/o", None, ""),
        ("o/r", None, ""),
        ("a.test", None, ""),
        ("git@a.test", None, ""),
        ("git@localhost:o/r", None, ""),
        ("git@a.test:o r", None, ""),
        (f"git@a.test:o/{'r' * 300}", None, ""),
    ],
)
def test_recognises_ssh_addresses_of_repositories(text: str, address: str | None, repository: str) -> None:
    assert (https_address(text), repository_of(text)) == (address, repository)


def test_rejects_an_ssh_address_and_suggests_what_to_write() -> None:
    require_no_ssh("a.test")
    with pytest.raises(InvalidValue) as invalid:
        require_no_ssh("git@a.test:o/r.git")
    hint = "git uses https in the sandbox: allow the host `a.test`, or its service with `repos: [o/r]`"
    assert (invalid.value.what, invalid.value.hint) == ("'git@a.test:o/r.git' is an SSH address", hint)
