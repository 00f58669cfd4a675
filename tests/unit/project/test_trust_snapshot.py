import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.match.host_list import FILE_NAME
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.problems import UserError
from agent_sandbox.project.trust_snapshot import FILE_NAME as OURS
from agent_sandbox.project.trust_snapshot import SERVICES, Standing, agent_can_write, look, own_numbers

COMPOSE = ".devcontainer/docker-compose.yml"
POLICY = ".devcontainer/policy.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    (root / ".devcontainer").mkdir(parents=True)
    (root / COMPOSE).write_text("name: app\n")
    (root / POLICY).write_bytes(b"version: 1\n")
    return root


def test_includes_the_policy_devcontainer_json_and_every_compose_file(root: Path, tmp_path: Path) -> None:
    (root / ".devcontainer" / "devcontainer.json").write_text("{}")
    (root / "more.yml").write_text("services: {}\n")
    (tmp_path / "mine.yml").write_text("networks: {}\n")
    (root / ".env").write_text(f"SECRET=1\nCOMPOSE_FILE={COMPOSE}:./sub/../more.yml:../mine.yml\n")
    expected = Standing(
        root=root,
        owner=None,
        stack_files=(COMPOSE, "more.yml", str(tmp_path / "mine.yml")),
        files={
            COMPOSE: "name: app\n",
            "more.yml": "services: {}\n",
            str(tmp_path / "mine.yml"): "networks: {}\n",
            ".devcontainer/devcontainer.json": "{}",
            POLICY: "version: 1\n",
        },
    )
    assert look(root, os.environ) == expected


def test_the_fingerprint_depends_on_owner_and_files_but_not_on_the_directory(root: Path) -> None:
    here = look(root, os.environ)
    assert replace(here, root=Path("/elsewhere")).fingerprint == here.fingerprint
    changed = (
        replace(here, owner=7),
        replace(here, stack_files=(COMPOSE, COMPOSE)),
        replace(here, files={**here.files, POLICY: "version: 1\n#\n"}),
        here.apart_from([COMPOSE]),
    )
    assert len({here.fingerprint, *(one.fingerprint for one in changed)}) == 5


def test_apart_from_omits_the_given_files(root: Path) -> None:
    left = look(root, os.environ).apart_from([COMPOSE])
    assert (left.stack_files, left.files) == ((), {POLICY: "version: 1\n"})


def test_keeps_the_bytes_of_a_policy_that_is_not_utf8(root: Path) -> None:
    (root / POLICY).write_bytes(b"# caf\xe9\r\n")
    assert look(root, os.environ).files[POLICY].encode(errors="surrogateescape") == b"# caf\xe9\r\n"


def test_ignores_a_policy_that_is_a_link(root: Path) -> None:
    (root / POLICY).unlink()
    (root / POLICY).symlink_to("/etc/hosts")
    assert POLICY not in look(root, os.environ).files


def test_rejects_a_devcontainer_directory_that_is_a_link(root: Path, tmp_path: Path) -> None:
    (root / ".devcontainer").rename(tmp_path / "theirs")
    (root / ".devcontainer").symlink_to(tmp_path / "theirs")
    with pytest.raises(UserError) as raised:
        look(root, os.environ)
    assert str(raised.value) == (
        f"{root}/.devcontainer: cannot be used; agent-sandbox does not follow symbolic links:"
        " replace it with a real file or directory"
    )


def test_reports_a_compose_file_that_is_named_but_does_not_exist(root: Path) -> None:
    (root / ".env").write_text(f"COMPOSE_FILE={COMPOSE}:gone.yml\n")
    with pytest.raises(UserError) as raised:
        look(root, os.environ)
    named = "`COMPOSE_FILE` in .env or `dockerComposeFile` in devcontainer.json names it"
    assert str(raised.value) == f"{root}/gone.yml: {named}, but it does not exist"


def test_records_the_owner_of_another_users_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = root.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert look(root, {}).owner == owner


@pytest.mark.parametrize(
    ("user", "caller", "expected"),
    [(0, "1000", {0, 1000}), (0, "", {0}), (0, "x", {0}), (1000, "1001", {1000})],
)
def test_own_numbers_includes_the_uid_of_the_sudo_caller_for_root(
    monkeypatch: pytest.MonkeyPatch, user: int, caller: str, expected: set[int]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert own_numbers({"SUDO_UID": caller}) == expected


def test_the_agent_can_write_project_files_except_those_in_devcontainer() -> None:
    paths = ("compose.yml", "sub/.devcontainer/x.yml", ".devcontainer/x.yml", "/home/ann/x.yml")
    assert [agent_can_write(path) for path in paths] == [True, True, False, False]


def test_includes_the_resolved_services_beside_the_policy(root: Path) -> None:
    (root / ".devcontainer" / "services").mkdir()
    for name in TOOLS:
        (root / ".devcontainer" / "services" / f"{name}.yaml").write_text("version: 1\n")
    assert sorted(look(root, os.environ).files) == sorted((COMPOSE, POLICY, *SERVICES))


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\ndomains_file: hosts.txt\n",
        "{version: 1, 'domains_file': hosts.txt}",
        '{"domains\\x5ffile": "h\\x6fsts.txt"}',
        "\ufeff? domains_file\n: hosts.txt\n",
    ],
)
def test_includes_the_host_list_of_a_policy_however_the_key_is_written(root: Path, text: str) -> None:
    (root / POLICY).write_text(text)
    (root / ".devcontainer" / "hosts.txt").write_text("example.org\n")
    assert look(root, os.environ).policy == {POLICY: text, ".devcontainer/hosts.txt": "example.org\n"}


@pytest.mark.parametrize("name", ["../hosts.txt", "/etc/passwd", "gone.txt", "[a]", "docker-compose.yml"])
def test_ignores_a_host_list_that_is_missing_or_not_beside_the_policy(root: Path, name: str) -> None:
    (root / POLICY).write_text(f"domains_file: {name}\n")
    assert sorted(look(root, os.environ).files) == [COMPOSE, POLICY]


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nsettings:\n  upstream: {ca: corp.pem}\n",
        '{"settings": {"upstream": {"ca": "corp.pem", "proxy": "http://proxy.corp.example:3128"}}}',
        '{"settings": {"upstr\\x65am": {"\\x63a": "corp.pem"}}}',
    ],
)
def test_includes_the_ca_file_of_a_policy_but_not_as_a_host_list(root: Path, text: str) -> None:
    (root / POLICY).write_text(text)
    (root / ".devcontainer" / "corp.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    found = look(root, os.environ)
    assert found.policy == {POLICY: text, ".devcontainer/corp.pem": "-----BEGIN CERTIFICATE-----\n"}
    assert found.lists == {}


@pytest.mark.parametrize("text", ["settings: {upstream: x}", "settings: [upstream]", "upstream: {ca: hosts.txt}"])
def test_ignores_upstream_settings_that_name_no_ca_file(root: Path, text: str) -> None:
    (root / POLICY).write_text(text)
    (root / ".devcontainer" / "hosts.txt").write_text("example.org\n")
    assert sorted(look(root, os.environ).files) == [COMPOSE, POLICY]


def test_the_file_name_pattern_equals_that_of_the_policy_language() -> None:
    assert OURS.pattern == FILE_NAME.pattern


def test_a_compose_file_can_also_be_the_host_list_of_the_policy(root: Path) -> None:
    (root / POLICY).write_text("domains_file: docker-compose.yml\n")
    assert sorted(look(root, os.environ).policy) == [COMPOSE, POLICY]
