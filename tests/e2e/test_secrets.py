"""Secrets: the server gets the value, and nothing else contains it. The tests run in order, on one stack."""

import base64
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from engine import CommandError, run
from real_stacks import Project, Projects

HOST, OTHER = "allowed.test", "example.com"
NAME = "tracker.token"
TRANSFORM = f"{{request: {{headers: {{Authorization: {{secret: {NAME}, transform: {{type: bearer}}}}}}}}}}"
POLICY = f"""\
version: 1
services: [claude]
domains:
  - {{host: {HOST}, transform: {TRANSFORM}}}
  - {{host: {OTHER}, transform: {TRANSFORM}}}
"""
URL = f"https://{HOST}/"
SET = f"agent-sandbox secret set {NAME}"
# Where an agent could find a leftover value: its own files, shared files and in-memory file systems.
PLACES = ("/home", "/workspace", "/tmp", "/run", "/etc", "/var", "/root", "/usr/local", "/dev/shm")  # noqa: S108 - a container's
PROCESSES = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline"


@pytest.fixture(scope="module")
def project(projects: Projects) -> Project:
    """A stack whose policy needs one secret for two hosts. The secret is not set."""
    project = projects.make("secrets", "claude")
    project.write_policy(POLICY)
    project.sandbox("up")
    return project


@pytest.fixture(scope="module")
def value() -> str:
    """The value of the secret, which only the server is allowed to see."""
    return secrets.token_urlsafe(32)


@pytest.fixture(scope="module")
def bound(project: Project, value: str) -> Project:
    """The same stack, with the secret set for one of the hosts."""
    done = project.sandbox("secret", "set", NAME, "--host", HOST, piped=f"{value}\n")
    assert (done.stdout, done.stderr) == (
        "",
        f"{NAME} is now injected into requests to {HOST} where the policy says so\n",
    )
    return project


def sent(project: Project, host: str = HOST) -> list[str | None]:
    """Return the Authorization header of each request to a host, including those of other tests."""
    headers = ({key.lower(): value for key, value in one["headers"].items()} for one in project.internet.requests(host))
    return [one.get("authorization") for one in headers]


def traces(value: str, where: Iterable[tuple[str, str]]) -> list[str]:
    """Return the places whose text contains a value, plain or encoded."""
    forms = (value, base64.b64encode(value.encode()).decode().rstrip("="))
    return [place for place, text in where if any(form in text for form in forms)]


def said(project: Project) -> Iterator[tuple[str, str]]:
    """Yield everything that Docker, Compose and our own commands print about a stack."""
    yield "docker inspect", json.dumps(project.containers())
    yield "docker compose config", project.compose("config").stdout
    yield "docker compose logs", project.compose("logs").stdout
    yield "docker compose top", project.compose("top").stdout
    yield "the traffic log", json.dumps(project.traffic())
    for command in (
        ("status", "--json"),
        ("secret", "list", "--json"),
        ("proxy", "logs", "--json"),
        ("trust", "--json"),
    ):
        done = project.sandbox(*command)
        yield " ".join(command), done.stdout + done.stderr
    yield "docker volume inspect", run("docker", "volume", "inspect", *volumes(project)).stdout


def on_the_host(project: Project) -> Iterator[tuple[str, str]]:
    """Yield each file of the project and of our state directory."""
    for folder in (project.path, Path(os.environ["XDG_STATE_HOME"])):
        for file in folder.rglob("*"):
            if file.is_file():
                yield str(file), file.read_bytes().decode("latin-1")


def files_with(project: Project, text: str, user: str) -> list[str]:
    """Return the files in the agent container with a text. It is piped to grep: an argument would itself be a trace."""
    grep = ("exec", "-T", "--user", user, "agent", "grep", "-rlasF", "-f", "-", *PLACES)
    return run("docker", "compose", *grep, cwd=project.path, check=False, piped=f"{text}\n").stdout.splitlines()


def volumes(project: Project) -> list[str]:
    """Return the names of the stack's volumes."""
    name = json.loads(project.compose("config", "--format=json").stdout)["name"]
    label = f"label=com.docker.compose.project={name}"
    return run("docker", "volume", "ls", "--quiet", "--filter", label).stdout.split()


def test_denies_requests_that_need_an_unset_secret_and_lists_how_to_set_it(project: Project) -> None:
    before = len(sent(project))
    assert project.curl(URL)[0] == 403
    assert len(sent(project)) == before
    done = project.sandbox("secret", "list")
    both = f"{SET} --host {HOST} --host {OTHER}"
    assert done.stdout.splitlines() == [
        f"policy.yaml:4 needs {NAME} for {HOST}: {both}",
        f"policy.yaml:5 needs {NAME} for {OTHER}: {both}",
    ]
    assert done.stderr == "no secret is set\n"


def test_the_server_gets_the_secret_and_the_agent_does_not(bound: Project, value: str) -> None:
    status, body = bound.curl(URL, "--verbose")
    assert (status, sent(bound)[-1]) == (200, f"Bearer {value}")
    assert value not in body
    assert value not in bound.exec("curl", "-sS", "--verbose", URL).stderr


def test_denies_hosts_that_the_secret_is_not_bound_to_and_plain_http(bound: Project) -> None:
    before = len(sent(bound)), len(sent(bound, OTHER))
    assert bound.curl(f"https://{OTHER}/")[0] == 403
    assert bound.curl(f"http://{HOST}/")[0] == 403
    assert (len(sent(bound)), len(sent(bound, OTHER))) == before
    both = f"{SET} --host {HOST} --host {OTHER}"
    first, *rest = bound.sandbox("secret", "list").stdout.splitlines()
    assert first.startswith(f"{NAME}  {HOST}  bearer  ")
    assert rest == ["", f"policy.yaml:5 needs {NAME} for {OTHER}: {both}"]


def test_no_command_output_log_or_file_on_the_host_machine_contains_the_secret(bound: Project, value: str) -> None:
    assert bound.curl(URL)[0] == 200
    assert traces(value, said(bound)) == []
    assert traces(value, on_the_host(bound)) == []


@pytest.mark.parametrize("user", ["dev", "root"])
def test_no_process_or_file_in_the_agent_container_contains_the_secret(bound: Project, value: str, user: str) -> None:
    told = bound.exec("sh", "-c", PROCESSES, user=user, check=False).stdout
    assert "HTTPS_PROXY=" in told
    assert traces(value, [("processes", told)]) == []
    assert "/workspace/.devcontainer/policy.yaml" in files_with(bound, NAME, user)
    assert files_with(bound, value, user) == []


def test_only_the_proxy_mounts_the_secrets_and_only_its_user_can_read_them(bound: Project) -> None:
    mounted = {
        service: [one["Destination"] for one in container["Mounts"] if one.get("Name", "").endswith("_secrets")]
        for service, container in bound.containers().items()
    }
    assert mounted == {"proxy": ["/state/secrets"], "firewall": [], "agent": []}
    modes = bound.compose("exec", "-T", "proxy", "stat", "-c", "%u %a", "/state/secrets").stdout
    assert modes == "10001 700\n"


def uses(project: Project) -> tuple[int, str]:
    (row,) = json.loads(project.sandbox("secret", "list", "--json").stdout)["secrets"]
    return row["uses"], row["last_use"]


def test_the_use_of_a_secret_is_in_the_audit_log(bound: Project) -> None:
    assert bound.curl(URL)[0] == 200
    logged = [one["secrets"] for one in bound.traffic() if "secrets" in one]
    (use,) = logged[-1]
    assert (use.pop("age_s") >= 0, use) == (True, {"secret": NAME, "kind": "bearer", "source": "stored"})


def test_a_restarted_proxy_keeps_the_secret_and_its_use_count(bound: Project, value: str) -> None:
    logged = len([one for one in bound.traffic() if "secrets" in one])
    bound.compose("restart", "proxy")
    count, last = uses(bound)
    assert (count, last is None) == (logged, False)
    bound.wait_until_it_answers(URL, 200)
    assert sent(bound)[-1] == f"Bearer {value}"


def test_a_new_value_is_injected_from_the_next_request_on(bound: Project, value: str) -> None:
    other = secrets.token_urlsafe(32)
    bound.sandbox("secret", "set", NAME, "--host", HOST, piped=other)
    assert bound.curl(URL)[0] == 200
    assert sent(bound)[-1] == f"Bearer {other}"
    assert traces(value, said(bound)) == []


def test_rejects_a_value_that_is_too_short_and_keeps_the_old_value(bound: Project) -> None:
    before = sent(bound)[-1]
    with pytest.raises(CommandError, match="it has fewer than 8 characters") as refused:
        bound.sandbox("secret", "set", NAME, "--host", HOST, piped="hunter2\n")
    assert "hunter2" not in str(refused.value)
    assert bound.curl(URL)[0] == 200
    assert sent(bound)[-1] == before


def test_denies_requests_that_need_a_removed_secret(bound: Project) -> None:
    done = bound.sandbox("secret", "remove", NAME)
    removed, needed = done.stderr.splitlines()
    assert (done.stdout, removed) == ("", f"{NAME} is removed: the proxy no longer injects it")
    assert needed.startswith("the policy still needs it (")
    assert needed.endswith("), so these requests are denied until it is set again or the policy changed")
    before = len(sent(bound))
    assert bound.curl(URL)[0] == 403
    assert len(sent(bound)) == before
    with pytest.raises(CommandError, match="there is no secret"):
        bound.sandbox("secret", "remove", NAME)


KEYED = f"""\
version: 1
services: [{{name: claude, secret: the.key}}]
domains: [{OTHER}]
"""
API = "api.anthropic.com"
VARIABLE = "ANTHROPIC_API_KEY"
ME = "me@example.com"


@pytest.fixture(scope="module")
def keyed(project: Project, value: str) -> Project:
    """The same stack, for Claude Code with an API key. The agent has only a placeholder."""
    project.write_policy(KEYED)
    project.sandbox("proxy", "reload")
    project.sandbox("secret", "set", "the.key", "--host", API, piped=f"{value}\n")
    return project


def keys(project: Project) -> list[str | None]:
    """Return the x-api-key header of each request to the API."""
    headers = ({key.lower(): value for key, value in one["headers"].items()} for one in project.internet.requests(API))
    return [one.get("x-api-key") for one in headers]


def placeholder(project: Project) -> str:
    return project.sandbox("exec", "--", "printenv", VARIABLE).stdout.strip()


def test_every_way_into_the_sandbox_exports_the_placeholder(keyed: Project) -> None:
    found = {
        placeholder(keyed),
        keyed.exec("zsh", "-c", f"printenv {VARIABLE}").stdout.strip(),
        keyed.exec("zsh", "-ic", f"printenv {VARIABLE}").stdout.strip(),
        keyed.exec("bash", "-lc", f"printenv {VARIABLE}").stdout.strip(),
        keyed.exec("bash", "-ic", f"printenv {VARIABLE}").stdout.strip(),
    }
    (text,) = found
    assert text.startswith("sk-ant-api03-")
    assert keyed.exec("zsh", "-c", f"{VARIABLE}=own zsh -c 'printenv {VARIABLE}'").stdout == "own\n"


def test_claude_code_holds_a_conversation_with_an_injected_key(keyed: Project, value: str) -> None:
    before = len(keys(keyed))
    said = keyed.exec("zsh", "-c", "claude -p 'say hi' --dangerously-skip-permissions").stdout
    assert "Hello from the stand-in." in said
    assert set(keys(keyed)[before:]) == {value}


def test_denies_the_placeholder_to_other_hosts_and_other_keys_to_the_api(keyed: Project) -> None:
    before = len(keys(keyed)), len(keyed.internet.requests(OTHER))
    mine = placeholder(keyed)
    status, body = keyed.curl(f"https://{OTHER}/", "-H", f"x-api-key: {mine}")
    assert (status, "has a placeholder" in body) == (403, True)
    assert keyed.curl(f"https://{API}/v1/models", "-H", "x-api-key: sk-attacker")[0] == 403
    assert keyed.curl(f"https://{API}/v1/models", "-H", "Authorization: Bearer sk-attacker")[0] == 403
    assert (len(keys(keyed)), len(keyed.internet.requests(OTHER))) == before


def test_a_search_of_the_sandbox_finds_the_placeholder_and_no_key(keyed: Project, value: str) -> None:
    told = keyed.exec("sh", "-c", PROCESSES, user="root", check=False).stdout
    assert traces(value, [("processes", told), *said(keyed), *on_the_host(keyed)]) == []
    assert "/usr/local/share/agent-sandbox/ca/placeholders.sh" in files_with(keyed, placeholder(keyed), "root")
    assert files_with(keyed, value, "root") == []


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, value: str) -> Path:
    """The user's file with the key, outside the project."""
    file = tmp_path_factory.mktemp("vault") / "key"
    file.write_text(f"{value}\n")
    file.chmod(0o600)
    return file


def status_of_a_request(project: Project) -> tuple[int, str]:
    return project.curl(f"https://{API}/v1/models", "-H", "Accept: application/json")


def test_a_value_from_a_source_stays_in_memory_and_rotates_without_a_restart(
    keyed: Project, source: Path, value: str
) -> None:
    keyed.sandbox("secret", "set", "the.key", "--host", API, "--from", f"file:{source}")
    started = keyed.containers()["proxy"]["State"]["StartedAt"]
    assert (status_of_a_request(keyed)[0], keys(keyed)[-1]) == (200, value)
    stored = keyed.compose("exec", "-T", "proxy", "grep", "-rlF", value, "/state", check=False).stdout.splitlines()
    assert stored == ["/state/run/secrets/the.key"]
    other = secrets.token_urlsafe(32)
    source.write_text(other)
    assert keyed.sandbox("secret", "sync").stderr == "1 secret fetched from its source\n"
    assert (status_of_a_request(keyed)[0], keys(keyed)[-1]) == (200, other)
    assert keyed.containers()["proxy"]["State"]["StartedAt"] == started
    assert traces(other, [*said(keyed), *on_the_host(keyed)]) == []


def test_secret_test_prints_the_servers_status_and_fails_over_plain_http(keyed: Project) -> None:
    assert keyed.sandbox("secret", "test", "the.key").stderr == f"the.key was sent to {API}, which answers 200\n"
    denied = keyed.sandbox("secret", "test", "the.key", "--url", f"http://{API}/v1/models", check=False)
    assert (denied.returncode, denied.stderr.startswith(f"error: http://{API}/v1/models: ")) == (1, True)


def test_requests_get_a_502_and_status_shows_it_when_a_source_fails(keyed: Project, source: Path) -> None:
    before = len(keys(keyed))
    source.chmod(0o644)
    with pytest.raises(CommandError, match="other users may open the file"):
        keyed.sandbox("secret", "sync")
    status, body = status_of_a_request(keyed)
    assert (status, "secret the.key has no value now: its source failed" in body) == (502, True)
    assert str(source) not in body
    line = f"secret  the.key has no value now: its source failed (file:{source}): agent-sandbox secret sync"
    assert line in keyed.sandbox("status").stdout.splitlines()
    assert len(keys(keyed)) == before


def test_a_restarted_proxy_answers_502_until_the_source_is_fetched_again(keyed: Project, source: Path) -> None:
    source.chmod(0o600)
    keyed.sandbox("secret", "sync")
    keyed.compose("restart", "proxy")
    body = keyed.wait_until_it_answers(f"https://{API}/v1/models", 502)
    assert "its source was not asked since the proxy started" in body
    keyed.sandbox("proxy", "restart")
    keyed.wait_until_it_answers(f"https://{API}/v1/models", 200)
    assert keys(keyed)[-1] == source.read_text()


@pytest.fixture
def signing_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's signing key, and git settings that name the key and the user."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key"))
    settings = f"[user]\n\temail = {ME}\n\tname = Me\n\tsigningKey = {tmp_path}/key.pub\n"
    (tmp_path / "gitconfig").write_text(f"{settings}[gpg]\n\tformat = ssh\n[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    return tmp_path / "key"


def test_commits_are_signed_with_a_key_that_the_sandbox_never_has(keyed: Project, signing_key: Path) -> None:
    keyed.sandbox("secret", "setup", "signing")
    commit = f"git -c user.name=Me -c user.email={ME} commit --quiet --allow-empty --message=signed"
    keyed.exec("sh", "-ec", f"git init --quiet ~/signed; cd ~/signed; git config user.signingKey /not/here; {commit}")
    signed = keyed.exec("git", "-C", "/home/dev/signed", "cat-file", "commit", "HEAD").stdout
    folder = signing_key.parent
    (folder / "signers").write_text(f'{ME} namespaces="git" {signing_key.with_suffix(".pub").read_text()}')
    run("git", "init", "--quiet", ".", cwd=folder)
    run("git", "mktree", cwd=folder, piped="")
    name = run("git", "hash-object", "-t", "commit", "-w", "--stdin", cwd=folder, piped=signed).stdout.strip()
    signers = f"gpg.ssh.allowedSignersFile={folder}/signers"
    assert f'Good "git" signature for {ME}' in run("git", "-c", signers, "verify-commit", name, cwd=folder).stderr
    private = signing_key.read_text().splitlines()[4][:60]
    told = keyed.exec("sh", "-c", PROCESSES, user="root", check=False).stdout
    assert traces(private, [("processes", told), *said(keyed), *on_the_host(keyed)]) == []
    assert files_with(keyed, private, "root") == []
    listed = keyed.sandbox("secret", "list").stdout
    assert f"git.signing-key  agent-sandbox.internal  ssh-sign  from ssh-key:{signing_key}; used once" in listed


def test_destroy_removes_all_volumes_with_the_secrets_and_the_stored_sources(keyed: Project) -> None:
    assert any(name.endswith("_secrets") for name in volumes(keyed))
    folder = Path(os.environ["XDG_STATE_HOME"]) / "agent-sandbox" / "secrets"  # other tests' projects have files there
    before = {*folder.iterdir()}
    keyed.sandbox("destroy", "--yes")
    assert {*folder.iterdir()} < before
    assert volumes(keyed) == []
