from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources import github_app as subject
from agent_sandbox.features.secrets.sources.fetch import Host, fetch
from agent_sandbox.features.secrets.sources.github_app import FORM, NoTokenError, parse_app
from agent_sandbox.features.secrets.sources.value import Fetched
from agent_sandbox.problems import UserError
from github_app import APP, LIFE, GitHub, github
from table_tests import each

AGAIN = "agent-sandbox secret sync tries again"
SETTINGS = "change that in the settings of the app, and accept it where the app is installed"
CHECK = "check the app's ID, and that the key is one of its private keys"
EVERYWHERE = "install the app on each of these repositories, and accept its permissions there"


@pytest.fixture(scope="module")
def serving() -> Iterator[GitHub]:
    with github() as it:
        yield it


@pytest.fixture
def server(serving: GitHub, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    serving.reset()
    monkeypatch.setattr(subject, "API", serving.address)
    return serving


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "project").mkdir()
    return Host(root=tmp_path / "project", environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


@pytest.fixture
def ask(server: GitHub, host: Host, tmp_path: Path) -> Callable[[str], Fetched]:
    """Fetch a token for these repositories."""
    key = server.key_file(tmp_path)
    return lambda words: fetch("a", f"github-app:{APP}:{key} {words}", host)


def why(source: str, host: Host) -> str:
    with pytest.raises(UserError) as raised:
        fetch("a", source, host)
    return str(raised.value.problems[0]).partition(": the source of a gives no value: ")[2]


@each(
    ("words", "contents", "names"),
    [
        ("me/app", "write", ["app"]),
        ("Me/app me/lib:read", "write", ["app", "lib"]),
        ("me/app:read me/lib:read", "read", ["app", "lib"]),
    ],
)
def test_requests_a_token_for_the_named_repositories_and_their_permissions(
    server: GitHub, ask: Callable[[str], Fetched], words: str, contents: str, names: list[str]
) -> None:
    found = ask(words)
    assert found.value.decode() == server.tokens[-1]
    assert found.left == pytest.approx(LIFE, abs=30)
    wanted = {"contents": contents, "metadata": "read", "issues": contents, "checks": "read"}
    assert server.wishes[-1] == {"repositories": names, "permissions": wanted}


@pytest.mark.parametrize("ahead", [-40.0, 40.0])
def test_computes_the_lifetime_of_a_token_by_the_clock_of_github(
    server: GitHub, ask: Callable[[str], Fetched], ahead: float
) -> None:
    server.ahead = ahead
    assert ask("me/app").left == pytest.approx(LIFE, abs=30)


@each(
    ("change", "words", "what"),
    [
        (
            {"ahead": 700.0},
            "me/app",
            "the clock of this machine is 12 minutes off; set it: GitHub accepts what the app signs for a few minutes",
        ),
        (
            {"ahead": -700.0},
            "me/app",
            "the clock of this machine is 12 minutes off; set it: GitHub accepts what the app signs for a few minutes",
        ),
        ({}, "me/none", "the app is not installed on me/none; install it there, on this repository"),
        (
            {"renamed": {"me/old"}},
            "me/old",
            "me/old has another name now; agent-sandbox secret setup github --repo NEW/NAME",
        ),
        (
            {},
            "me/app me/none",
            f"GitHub answers 422: There is at least one repository that is not accessible; {EVERYWHERE}",
        ),
        (
            {},
            "me/app you/lib",
            "the token of an app is for the repositories of one account; name only those of one",
        ),
        ({"permissions": {"contents": "read"}}, "me/app", f"the app may not write contents; {SETTINGS}"),
        ({"permissions": {"issues": "write"}}, "me/app:read", f"the app has no access to contents; {SETTINGS}"),
        ({"permissions": {"contents": "root"}}, "me/app", "the answer of GitHub has an unknown shape; report this"),
        ({"instead": {"installation": (500, b"<html>")}}, "me/app", f"GitHub answers 500; {AGAIN}"),
        (
            {"instead": {"access_tokens": (429, {"message": "slow\x1b[2J"})}},
            "me/app",
            f"GitHub answers 429: slow\\x1b[2J; {AGAIN}",
        ),
        ({"instead": {"access_tokens": (400, {"message": 4})}}, "me/app", f"GitHub answers 400: 4; {AGAIN}"),
        (
            {"instead": {"installation": (200, b'{"id": 1e999, "permissions": {"contents": "write"}}')}},
            "me/app",
            "the answer of GitHub has an unknown shape; report this",
        ),
        ({"instead": {"access_tokens": (201, [])}}, "me/app", "the answer of GitHub has an unknown shape; report this"),
        (
            {"instead": {"access_tokens": (201, {"token": "ghs_x", "expires_at": "x", "repositories": []})}},
            "me/app",
            "the answer of GitHub has an unknown shape; report this",
        ),
        (
            {"instead": {"access_tokens": (201, {"repositories": [{"full_name": "me/private"}]})}},
            "me/app",
            "GitHub gave a token for another repository: 'me/private'; it is not used",
        ),
    ],
)
def test_reports_each_failure_with_its_cause_and_a_hint(  # noqa: PLR0917 - the rows
    server: GitHub, host: Host, tmp_path: Path, change: dict[str, object], words: str, what: str
) -> None:
    server.reset()
    vars(server).update(change)
    assert why(f"github-app:{APP}:{server.key_file(tmp_path)} {words}", host) == what


def test_reports_a_wrong_app_id_or_an_invalid_key(server: GitHub, host: Host, tmp_path: Path) -> None:
    told = f"GitHub answers 401: A JSON web token could not be decoded; {CHECK}"
    assert why(f"github-app:4711:{server.key_file(tmp_path)} me/app", host) == told
    (tmp_path / "app.pem").write_text("no key")
    assert "it exited with 1" in why(f"github-app:{APP}:{tmp_path}/app.pem me/app", host)


def test_reports_an_answer_that_is_not_json_and_a_refused_connection(
    server: GitHub, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"github-app:{APP}:{server.key_file(tmp_path)} me/app"
    server.instead["installation"] = (200, b"<html>")
    assert why(source, host).startswith(f"{server.address} cannot be asked: ")
    monkeypatch.setattr(subject, "API", "http://127.0.0.1:1")
    told = f"http://127.0.0.1:1 cannot be asked: [Errno 111] Connection refused; {AGAIN}"
    assert why(source, host) == told


def test_the_path_of_the_key_can_start_with_a_tilde(
    server: GitHub, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    key = server.key_file(tmp_path).relative_to(tmp_path)
    assert fetch("a", f"github-app:{APP}:~/{key} me/app", host).value.decode() == server.tokens[-1]


def test_does_not_follow_redirects(server: GitHub, host: Host, tmp_path: Path) -> None:
    server.instead["installation"] = (302, {})
    server.instead["elsewhere"] = (200, {"id": 7, "permissions": server.permissions})
    assert why(f"github-app:{APP}:{server.key_file(tmp_path)} me/app", host).startswith("me/app has another name now")
    assert server.tokens == []


def test_requires_a_private_key_file_and_openssl(server: GitHub, host: Host, tmp_path: Path) -> None:
    key = server.key_file(tmp_path)
    source = f"github-app:{APP}:{key} me/app"
    bare = Host(root=host.root, environ={**host.environ, "PATH": "/none"})
    assert why(source, bare) == "openssl is not installed; install it: it signs with the key of the app"
    key.chmod(0o640)
    assert why(source, host) == "other users may open the file; chmod 600 FILE"
    inside = Path(host.root, "app.pem")
    key.rename(inside)
    assert (
        why(source.replace(str(key), str(inside)), host) == "the sandbox can see this file; move it out of the project"
    )


@each(
    ("text", "what"),
    [
        ("", "it names no app, or no file with its private key"),
        ("1 me/app", "it names no app, or no file with its private key"),
        ("../1:/k me/app", "it names no app, or no file with its private key"),
        ("1:/k 'me/app", "it names no app"),
        ("1:/k me", "not a repository: 'me'"),
        ("1:/k me/..", "not a repository: 'me/..'"),
        ("1:/k me/.:read", "not a repository: 'me/.:read'"),
        ("1:/k me/a%2Fb", "not a repository: 'me/a%2Fb'"),
        ("1:/k me/a/b", "not a repository: 'me/a/b'"),
        ("1:/k me/a?b", "not a repository: 'me/a?b'"),
    ],
)
def test_rejects_invalid_apps_key_files_and_repositories(text: str, what: str) -> None:
    with pytest.raises(NoTokenError) as raised:
        parse_app(text)
    assert (str(raised.value), raised.value.hint) == (what, FORM)


def test_a_source_without_a_repository_is_an_error(ask: Callable[[str], Fetched]) -> None:
    with pytest.raises(UserError, match="it names no repository"):
        ask("")


@each(
    ("before", "written", "read", "after"),
    [
        ("1:/k", ["me/app"], ["them/app", "me/lib"], "1:/k me/app me/lib:read"),
        ("1:/k me/lib:read", ["Me/app"], [], "1:/k Me/app me/lib:read"),
        ("1:/k me/lib:read", ["me/Lib"], [], "1:/k me/Lib"),
        ("1:/k me/app", [], ["me/app"], "1:/k me/app:read"),
        ("1:/k", [], ["me/a", "you/b"], "1:/k me/a:read"),
        ("1:/k me/app", ["you/b"], [], "1:/k me/app you/b"),
        ("'1:/a key'", ["me/app"], [], "'1:/a key' me/app"),
    ],
)
def test_with_more_adds_repositories(before: str, written: list[str], read: list[str], after: str) -> None:
    assert str(parse_app(before).with_more(written, read)) == f"github-app:{after}"
