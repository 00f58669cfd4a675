"""The token of a git server goes only to the repositories that the policy names: with real git, and by hand."""

import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_sandbox.proxy.secrets.store import put_secret
from certificates import make_authority
from git_server import BASIC, BASIC_GIT, BASIC_GITLAB, FOR_HOURS, GITLAB, LFS_HOSTS, TOKEN, GitServer, git_server
from proxy_stand import ProxyProcess, get, read_answer

HOST, API, GITEA = "github.com", "api.github.com", "codeberg.org"
POLICY = """\
version: 1
services:
  - name: github
    repos: [O/app, {name: o/lib, access: read}]
    git: {access: readwrite, auth: {secret: github.token}}
    web: {access: read}
    api: {access: readwrite, auth: {secret: github.token, client_shim: {kind: env}}}
  - name: codeberg
    repos: [o/app, {name: o/lib, access: read}]
    git: {access: readwrite, auth: {secret: codeberg.token}}
  - name: gitlab
    repos: [o/app, {name: o/lib, access: read}]
    git: {access: readwrite, auth: {secret: gitlab.token}}
"""
STARTS_FETCH, STARTS_PUSH = "info/refs?service=git-upload-pack", "info/refs?service=git-receive-pack"


@dataclass
class Stand:
    """The proxy, the git server behind all hosts, and a directory for git."""

    proxy: ProxyProcess
    server: GitServer
    folder: Path

    def git(self, *words: str, cwd: str = ".") -> subprocess.CompletedProcess[str]:
        """Run git as in the sandbox: without a terminal and without a credential."""
        options = {
            "http.proxy": f"http://127.0.0.1:{self.proxy.address[1]}",
            "http.sslCAInfo": self.proxy.ready["ca"],
            "user.name": "a",
            "user.email": "a@example.org",
        }
        given = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        quiet = {"HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        return subprocess.run(
            ("git", *given, *words),
            cwd=self.folder / cwd,
            env={"PATH": os.environ["PATH"], **quiet},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def ask(self, target: str, *fields: str, method: str = "GET", host: str = HOST) -> tuple[int, str]:
        """Send one request and return the status and the body."""
        with self.proxy.tls(host) as stream:
            length = ("Content-Length: 0",) if method != "GET" else ()
            stream.sendall(get(target, host, "Accept: application/json", *length, *fields, method=method))
            status, body = read_answer(stream)
        return status, body.decode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("scope")
    hosts = [HOST, API, GITEA, GITLAB, *LFS_HOSTS]
    authority = make_authority(folder, hosts)
    (folder / "state" / "secrets").mkdir(parents=True)
    put_secret(folder / "state" / "secrets", "github.token", [HOST, API], TOKEN.encode())
    put_secret(folder / "state" / "secrets", "codeberg.token", [GITEA], TOKEN.encode())
    put_secret(folder / "state" / "secrets", "gitlab.token", [GITLAB], TOKEN.encode())
    with git_server(folder / "repositories", folder / "leaf.pem") as server:
        resolve = {(name, 443): server.port for name in hosts}
        with ProxyProcess(folder, POLICY, resolve=resolve, upstream_ca=authority) as proxy:
            yield Stand(proxy, server, folder)


@pytest.fixture
def stand(whole: Stand) -> Stand:
    whole.server.seen.clear()
    return whole


def test_git_clones_and_pushes_without_having_the_token(stand: Stand) -> None:
    assert stand.git("clone", "-q", f"https://{HOST}/o/app.git", "app").returncode == 0
    assert stand.git("commit", "-q", "--allow-empty", "-m", "second", cwd="app").returncode == 0
    pushed = stand.git("push", "origin", "main", "main:next", cwd="app")
    assert (pushed.returncode, "main -> next" in pushed.stderr) == (0, True), pushed.stderr
    assert "refs/heads/next" in stand.git("ls-remote", f"https://{HOST}/O/App").stdout
    assert stand.git("clone", "-q", f"https://{HOST}/O/LIB", "lib").returncode == 0
    assert {credential for _, _, credential in stand.server.seen} == {BASIC}
    assert TOKEN not in (stand.folder / "app" / ".git" / "config").read_text()


def test_git_cannot_push_to_a_read_only_repository(stand: Stand) -> None:
    stand.git("clone", "-q", f"https://{HOST}/o/lib", "read")
    stand.git("commit", "-q", "--allow-empty", "-m", "second", cwd="read")
    stand.server.seen.clear()
    pushed = stand.git("push", cwd="read")
    assert pushed.returncode == 128
    assert (
        "remote: Reason: this request starts a git push, which is denied: host github.com is allowed" in pushed.stderr
    )
    assert "remote: To allow it: run `agent-sandbox secret setup github --repo o/lib` on the host" in pushed.stderr
    assert "Username" not in pushed.stderr
    assert stand.server.seen == []


def test_denies_git_the_redirect_to_a_renamed_repository(stand: Stand) -> None:
    stand.proxy.reload(POLICY.replace("O/app", "o/old"))
    cloned = stand.git("clone", "-q", f"https://{HOST}/o/old.git", "renamed")
    stand.proxy.reload(POLICY)
    assert cloned.returncode == 128
    assert "path /o/new.git/info/refs is not" in cloned.stderr
    assert "To allow it: run `agent-sandbox secret setup github --read o/new`" in cloned.stderr
    assert [target for _, target, _ in stand.server.seen] == [f"/o/old.git/{STARTS_FETCH}"]


WITH_LFS = [HOST, GITEA, GITLAB] if shutil.which("git-lfs") else []
FILTER = (
    *("-c", "filter.lfs.smudge=git-lfs smudge %f"),
    *("-c", "filter.lfs.clean=git-lfs clean %f"),
    *("-c", "filter.lfs.required=true"),
)


@pytest.mark.parametrize("host", WITH_LFS)
def test_git_lfs_pushes_and_fetches_without_having_the_token(stand: Stand, host: str) -> None:
    work = host.partition(".")[0]
    stand.git("clone", "-q", f"https://{host}/o/app.git", work)
    (stand.folder / work / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    (stand.folder / work / "x.bin").write_text(f"a large file of {host}")
    stand.git(*FILTER, "add", ".", cwd=work)
    stand.git(*FILTER, "commit", "-q", "-m", "large", cwd=work)
    pushed = stand.git("lfs", "push", "origin", "main", cwd=work)
    assert pushed.returncode == 0, pushed.stderr
    assert stand.git("push", "-q", "origin", f"main:{work}", cwd=work).returncode == 0
    cloned = stand.git(*FILTER, "clone", "-q", "-b", work, f"https://{host}/o/app.git", f"{work}-again")
    assert cloned.returncode == 0, cloned.stderr
    assert (stand.folder / f"{work}-again" / "x.bin").read_text() == f"a large file of {host}"
    # At github.com and gitlab.com, large files are on hosts that get no token.
    expected = {HOST: {BASIC, "", "RemoteAuth for-this-file"}, GITEA: {BASIC_GIT}, GITLAB: {BASIC_GITLAB, ""}}[host]
    assert {credential for _, _, credential in stand.server.seen} == expected
    assert any("/info/lfs/locks/verify" in target for _, target, _ in stand.server.seen)


@pytest.mark.parametrize("repository", ["o/app", "O/APP", "o/lib"])
def test_redacts_the_lfs_credential_in_gitlabs_response(stand: Stand, repository: str) -> None:
    asked = json.dumps({"operation": "download", "objects": [{"oid": "0" * 64, "size": 1}]})
    fields = (f"Content-Length: {len(asked)}", "Connection: close")
    with stand.proxy.tls(GITLAB) as stream:
        stream.sendall(
            get(f"/{repository}.git/info/lfs/objects/batch", GITLAB, *fields, method="POST") + asked.encode()
        )
        answer = b"".join(iter(lambda: stream.recv(65536), b""))
    body = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", answer)  # the stars can be in two chunks
    assert [credential for _, _, credential in stand.server.seen] == [BASIC_GITLAB]
    assert (FOR_HOURS.encode() in body, b'"Authorization": "Basic ********"' in body) == (False, True)


def test_denies_lfs_uploads_to_repositories_without_write_access(stand: Stand) -> None:
    for method, target in (
        ("PUT", "objects/0a/1"),
        ("POST", "verify"),
        ("POST", "locks"),
        ("GET", "objects/a/b"),
        ("DELETE", "objects/a"),
    ):
        for repository in ("o/lib.git", "o/other.git"):
            assert stand.ask(f"/{repository}/info/lfs/{target}", method=method, host=GITEA)[0] == 403
    assert stand.ask("/o/other.git/info/lfs/objects/batch", method="POST", host=GITEA)[0] == 403
    assert stand.server.seen == []


@pytest.mark.parametrize(
    "repository",
    [
        "o/application", "o/app-private", "o/ap", "o/app.wiki", "o/app.git.git", "o/app.", "o/other", "x/app",
        "o/app.GIT", "o%2Fapp", "o/app%2F..%2Fother", "o/app%2Egit%2F..%2Fother", "o/app/../other",
        "o/app/%2e%2e/other", "o/app.git/../../x/app", "x/../o/app", "o/app/.", "o//app", "/o/app", "o/app.git;x",
        "o/app%00", "o/app%0a", "o/app\\..\\other", "x/o/app", "o", "o/%61pp-private", "o/app%20", "o/a%70p%2f",
        "o/%D0%B0pp",
    ],
)  # fmt: skip
def test_no_spelling_of_another_repository_gets_the_token(stand: Stand, repository: str) -> None:
    for method, target in (("GET", STARTS_FETCH), ("POST", "git-upload-pack"), ("POST", "git-receive-pack")):
        status, body = stand.ask(f"/{repository}/{target}", method=method)
        assert status in {400, 403}
        assert '"blocked": true' in body
    assert stand.server.seen == []


@pytest.mark.parametrize(
    ("target", "canonical"),
    [
        ("/o/%61pp.git/", "/o/app.git/"),
        ("/O/APP/", "/O/APP/"),
        ("/o/ap%70/", "/o/app/"),
    ],
)
def test_forwards_the_canonical_path_with_the_token(stand: Stand, target: str, canonical: str) -> None:
    status, body = stand.ask(f"{target}{STARTS_FETCH}")
    assert (status, stand.server.seen) == (200, [("GET", f"{canonical}{STARTS_FETCH}", BASIC)]), body


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?service=git-upload-archive",
        "?service=git-receive-pack&service=git-upload-pack",
        "?service=git-upload-pack&x=1",
        "?service=git-receive-pack%00",
        "?SERVICE=git-upload-pack",
    ],
)
def test_other_or_ambiguous_git_services_get_no_token(stand: Stand, query: str) -> None:
    status, _ = stand.ask(f"/o/app.git/info/refs{query}")
    # It can pass as a web page, without the token.
    assert status in {400, 401, 403}
    assert {credential for _, _, credential in stand.server.seen} <= {""}


@pytest.mark.parametrize("path", ["/o/app", "/o/app/settings/keys", "/o/app/archive/main.zip", "/o/app/info/refs"])
def test_a_web_page_of_the_repository_gets_no_token(stand: Stand, path: str) -> None:
    assert stand.ask(path)[0] == 401
    assert stand.server.seen == [("GET", path, "")]


def placeholder(stand: Stand) -> str:
    script = (stand.proxy.folder / "state" / "ca" / "placeholders.sh").read_text()
    (found,) = re.findall(r'^export GH_TOKEN="\$\{GH_TOKEN:-([\w-]+)\}"$', script, re.MULTILINE)
    return str(found)


def basic(user: str, password: str) -> str:
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def test_replaces_the_placeholder_in_basic_credentials_of_any_user(stand: Stand) -> None:
    for user in ("x-access-token", "anyone", ""):
        assert stand.ask(f"/o/app.git/{STARTS_FETCH}", basic(user, placeholder(stand)))[0] == 200
    assert {credential for _, _, credential in stand.server.seen} == {BASIC}


def test_an_attackers_token_does_not_reach_the_repository(stand: Stand) -> None:
    for own in (basic("x-access-token", "ghp_attacker"), basic(placeholder(stand), "x"), "Authorization: Bearer x"):
        status, body = stand.ask(f"/o/app.git/{STARTS_FETCH}", own)
        assert status == 403
        assert json.loads(body)["reason"].startswith("the request already has the header `authorization`, ")
    assert stand.server.seen == []


@pytest.mark.parametrize("path", ["/x/app.git/info/refs", "/o/app/settings", "/o/app-private.git/git-upload-pack"])
def test_denies_the_placeholder_on_other_paths(stand: Stand, path: str) -> None:
    status, body = stand.ask(path, basic("x-access-token", placeholder(stand)))
    assert (status, '"blocked": true' in body) == (403, True)
    assert stand.server.seen == []


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        ("/repos/o/app", "GET", 200),
        ("/repos/O/App/pulls?state=open", "GET", 200),
        ("/repos/o/lib/issues", "GET", 200),
        ("/repos/o/app/pulls", "POST", 200),
        ("/repos/o/app-private", "GET", 403),
        ("/repos/o/other/pulls", "GET", 403),
        ("/repos/o/lib/pulls", "POST", 403),
        ("/repos/o/app/../other", "GET", 403),
        ("/repos/o%2Fapp/pulls", "GET", 403),
        ("/repos/o/app/pulls/1/merge", "PUT", 403),
        ("/repos/o/app/keys", "POST", 403),
        ("/repos/o/app/hooks", "POST", 403),
        ("/repos/o/app/actions/secrets/X", "PUT", 403),
        ("/repos/o/app", "DELETE", 403),
        ("/repos/o", "GET", 403),
        ("/user", "GET", 403),
        ("/user/repos", "GET", 403),
        ("/graphql", "POST", 403),
        ("/search/code?q=repo:o/other", "GET", 403),
        ("/repositories/1", "GET", 403),
    ],
)
def test_the_api_allows_only_the_repositories_of_the_policy(
    stand: Stand, target: str, method: str, status: int
) -> None:
    got, body = stand.ask(target, f"Authorization: token {placeholder(stand)}", method=method, host=API)
    seen = stand.server.seen
    # An ambiguous request is a 400.
    assert (got in {400, 403}, bool(seen)) == (status == 403, status == 200), body
    assert {credential for _, _, credential in seen} <= {f"Bearer {TOKEN}"}
