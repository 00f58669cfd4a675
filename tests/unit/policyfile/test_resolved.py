from pathlib import Path

import pytest

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.spec import ServiceFileSpec
from agent_sandbox.policyfile.catalogue import services_beside
from agent_sandbox.policyfile.loading import load_policy
from agent_sandbox.policyfile.parse.parsing import parse_service
from agent_sandbox.policyfile.resolved import SECTIONS, TOOLS, advice_for, found_beside, paths_beside, require_reading
from agent_sandbox.problems import UserError
from table_tests import each

READING = "domains: [{host: packages.example.org, rules: [{methods: [GET]}]}]"


def layer(text: str) -> Layer:
    return parse_service(text, name="python", file="f", shown="s")


def told(text: str) -> list[str]:
    with pytest.raises(UserError) as error:
        require_reading(layer(text), file="f")
    return [str(problem) for problem in error.value.problems]


def test_found_beside_returns_all_resolved_services_if_the_folder_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_beside(tmp_path) == ()
    (tmp_path / "file").write_text("")
    assert found_beside(tmp_path / "file") == ()

    def closed(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", closed)
    assert found_beside(tmp_path) == tuple(TOOLS)


@pytest.mark.parametrize("methods", ["GET", "HEAD", "GET, HEAD"])
def test_accepts_a_service_that_only_allows_reading(methods: str) -> None:
    good = layer(READING.replace("GET", methods))
    assert require_reading(good, file="f") == good


@each(
    ("text", "host"),
    [
        ("domains: [packages.example.org]", "packages.example.org"),
        ("domains: [{host: packages.example.org, rules: [{path: {exact: /a}}]}]", "packages.example.org"),
        ("domains: [{host: packages.example.org, rules: [{methods: [GET, PUT]}]}]", "packages.example.org"),
        ('domains: [{host: "*.example.org", rules: [{methods: [GET]}]}]', "*.example.org"),
        ('domains: [{host: ".example.org", rules: [{methods: [GET]}]}]', ".example.org"),
    ],
)
def test_rejects_entries_that_allow_more_than_reading_from_exact_hosts(text: str, host: str) -> None:
    what = f"{host}: a resolved service can only allow reading from exact hosts"
    assert told(text) == [f"f:1: {what}; write `rules: [{{methods: [GET]}}]`; allow anything wider in policy.yaml"]


@pytest.mark.parametrize("place", ["rules: [{methods: [GET], TRANSFORM}]", "TRANSFORM, rules: [{methods: [GET]}]"])
def test_rejects_entries_that_inject_a_secret(place: str) -> None:
    transform = "transform: {request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"
    what = "packages.example.org: a resolved service cannot inject a secret"
    text = f"domains: [{{host: packages.example.org, {place.replace('TRANSFORM', transform)}}}]"
    assert told(text) == [f"f:1: {what}; move the entry with `transform` to policy.yaml"]


OTHERS = {
    "services": "[]",
    "allow": "[GET https://a.test/]",
    "deny": "[b.test]",
    "host_services": "{x: {to: evil.test:443}}",
    "domains_file": "hosts.txt",
    "settings": "{inspect: false}",
    "allow_all": "true",
    "tighten": "true",
    "options": "{repos: repositories}",
    "tests": "[{allow: GET https://a.test/}]",
    "also": "[snake]",
}


def test_rejects_all_sections_but_domains_and_descriptions() -> None:
    written = "".join(f"{section}: {value}\n" for section, value in OTHERS.items())
    assert told(written + READING) == [
        f"f:{line}: `{section}` is not possible in a resolved service; move it to policy.yaml"
        for line, section in enumerate(OTHERS, start=1)
    ]


def test_every_section_is_either_accepted_or_rejected_by_these_tests() -> None:
    assert set(ServiceFileSpec.model_fields) == SECTIONS | set(OTHERS)


def test_loads_a_resolved_service_from_the_folder_beside_the_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("services: [python]")
    assert load_policy(policy).rules.rules == ()
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "python.yaml").write_text(READING)
    assert [str(rule.origin) for rule in load_policy(policy).rules.rules] == ["services/python.yaml:1"]


def test_a_file_beside_the_policy_never_replaces_a_shipped_service(tmp_path: Path) -> None:
    folder = tmp_path / "services"
    folder.mkdir()
    for name in ("claude", "mine", "node"):
        (folder / f"{name}.yaml").write_text("domains: [evil.test]")
    services = services_beside(tmp_path / "policy.yaml")
    assert found_beside(folder) == ("node",)
    assert ("mine" in services, "node" in services, "python" in services) == (False, True, True)
    assert services["python"].spec.domains == ()
    assert "python" not in services.shipped
    assert "evil.test" not in {str(entry.host) for entry in services["claude"].spec.domains}


def test_rejects_a_service_file_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "node.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=": symbolic link"):
        services_beside(tmp_path / "policy.yaml")["node"]


def test_rejects_a_services_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "svc").mkdir()
    (tmp_path / "svc" / "node.yaml").write_text(READING)
    (tmp_path / "services").symlink_to("svc")
    (tmp_path / "policy.yaml").write_text("services: [node]")
    with pytest.raises(UserError) as error:
        load_policy(tmp_path / "policy.yaml")
    assert str(error.value) == f"{tmp_path / 'services'}: symbolic link; replace it with the directory itself"


def test_advice_names_the_command_and_the_configuration_that_it_reads() -> None:
    assert advice_for("debian") == (
        "agent-sandbox policy allow apt takes its registry from apt's configuration on this machine"
    )


def test_paths_beside_lists_files_that_do_not_exist_yet() -> None:
    assert [str(path) for path in paths_beside(Path("a", "policy.yaml"))] == [
        "a/services/debian.yaml",
        "a/services/node.yaml",
        "a/services/python.yaml",
        "a/services/go-mirror.yaml",
        "a/services/java-mirror.yaml",
        "a/services/ruby-mirror.yaml",
        "a/services/rust-mirror.yaml",
    ]


def test_a_mirror_applies_to_every_policy_that_names_its_service(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    (tmp_path / "services").mkdir()
    for name in ("go-mirror", "rust-mirror", "node-mirror", "github-mirror"):
        (tmp_path / "services" / f"{name}.yaml").write_text(READING.replace("packages", name))

    def mirrors() -> list[str]:
        hosts = (str(rule.conditions.host) for rule in load_policy(policy).rules.rules)
        return [host for host in hosts if host.endswith(".example.org")]

    for text, hosts in {
        "services: [golang]": ["go-mirror.example.org"],
        "services: [go, {name: go-mirror}]": ["go-mirror.example.org"],
        "services: [go-mirror]": ["go-mirror.example.org"],
        "services: [rust, go]": ["rust-mirror.example.org", "go-mirror.example.org"],
        "services: [node, github]": [],
    }.items():
        policy.write_text(text)
        assert sorted(mirrors()) == sorted(hosts)


def test_rejects_a_mirror_that_allows_more_than_reading_from_exact_hosts(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("services: [go]")
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "go-mirror.yaml").write_text('domains: ["*.example.org"]')
    with pytest.raises(UserError, match="a resolved service can only allow reading from exact hosts"):
        load_policy(tmp_path / "policy.yaml")
