import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.upstream import Authorities
from agent_sandbox.policyfile.catalogue import shipped_services
from agent_sandbox.policyfile.layer_file import LayerFile, layer_beside
from agent_sandbox.policyfile.loading import HINT, load_authorities, load_layer, load_policy
from agent_sandbox.problems import UserError
from certificates import make_authority

LEAF_HINT = "use the certificate of the CA that signs, not that of one server"


def test_a_file_is_loaded_with_the_services_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("services: [claude]\ndomains: [a.test]")
    origins = {str(rule.origin).split(":")[0] for rule in load_policy(path).rules.rules}
    assert origins == {"services/claude.yaml", "policy.yaml"}


def test_problems_contain_the_full_path_and_layers_only_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("domains: ['*.com']")
    with pytest.raises(UserError) as error:
        load_policy(path)
    what = "`*.com` matches every name that anyone registers below `com`"
    assert str(error.value) == f"{path}:1:11: {what}; name the hosts you need"
    path.write_text("domains: [a.test]")
    layer = load_layer(LayerFile(name="project", path=path), services=shipped_services())
    assert (layer.file, layer.name) == ("policy.yaml", "project")


def layers(tmp_path: Path, **texts: str) -> Policy:
    """Load a policy from the given layers; the files of other layers are missing."""
    paths = {name: tmp_path / f"{name}.yaml" for name in ("user", "organisation", "project")}
    for name, text in texts.items():
        paths[name].write_text(text)
    beside = [layer_beside(name, paths[name]) for name in ("user", "organisation")]
    return load_policy(paths["project"], layers=beside)


def test_loads_all_layers_and_the_organisation_layer_only_restricts(tmp_path: Path) -> None:
    policy = layers(
        tmp_path,
        user="domains: [u.test]",
        organisation="domains: [.p.test]\ndeny: [o.test]",
        project="domains: [p.test]",
    )
    assert [(str(rule.origin), rule.origin.layer) for rule in policy.rules.rules] == [
        ("user/user.yaml:1", "user"),
        ("organisation/organisation.yaml:2", "organisation"),
        ("project.yaml:1", "project"),
    ]
    (restriction,) = policy.rules.restrictions
    assert [str(rule.origin) for rule in restriction.rules] == ["organisation/organisation.yaml:1"]


def test_ignores_missing_layers_but_requires_the_project_layer(tmp_path: Path) -> None:
    assert layers(tmp_path, project="domains: [p.test]") == load_policy(tmp_path / "project.yaml")
    (tmp_path / "project.yaml").unlink()
    with pytest.raises(UserError) as error:
        layers(tmp_path)
    assert str(error.value) == f"{tmp_path}/project.yaml: no such file"


def test_reports_the_problems_of_all_layers_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        layers(tmp_path, user="domains: x", organisation="domains: [{host: a.test, merge_mode: replace}]", project="")
    replaces = "a restricting layer cannot replace anything; remove `merge_mode`"
    assert str(error.value).splitlines() == [
        f"{tmp_path}/user.yaml:1:10: list expected, not 'x'; write [x]",
        f"{tmp_path}/organisation.yaml:1:26: {replaces}",
    ]


@pytest.mark.parametrize("name", ["user", "organisation"])
def test_only_the_project_layer_can_name_a_resolved_service(tmp_path: Path, name: str) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "python.yaml").write_text("domains: [{host: evil.test, rules: [{methods: [GET]}]}]")
    layers(tmp_path, project="services: [python]")
    with pytest.raises(UserError) as error:
        layers(tmp_path, project="services: [python]", **{name: "services: [python]"})
    (problem,) = error.value.problems
    assert (problem.where, problem.what) == (
        f"{tmp_path}/{name}.yaml:1:12",
        "service 'python': only a project's policy can name it",
    )


def test_loads_the_certificates_beside_the_layer_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    authority = make_authority(tmp_path / "user", ["a.test"])
    (tmp_path / "user" / "policy.yaml").write_text("settings: {upstream: {ca: ca.crt}}")
    (tmp_path / "policy.yaml").write_text("domains: [a.test]")
    user = layer_beside("user", tmp_path / "user" / "policy.yaml")
    policy = load_policy(tmp_path / "policy.yaml", layers=[user])
    assert policy.authorities == authority.read_text().strip()
    authority.write_text("")
    with pytest.raises(UserError, match="not a file of certificates"):
        load_policy(tmp_path / "policy.yaml", layers=[user])


def test_reports_a_missing_ca_or_host_list_at_the_key_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("settings:\n  upstream: {ca: corp.pem}\ndomains_file: hosts.txt\n")
    with pytest.raises(UserError) as error:
        load_policy(path)
    hint = "which is not in the directory of this file; add the file, or correct the name"
    assert str(error.value).splitlines() == [
        f"{path}:2:14: `ca` names `corp.pem`, {hint}",
        f"{path}:3:1: `domains_file` names `hosts.txt`, {hint}",
    ]
    (tmp_path / "hosts.txt").symlink_to("nowhere")
    (tmp_path / "corp.pem").touch()
    with pytest.raises(UserError, match=r"hosts\.txt: symbolic link"):
        load_policy(path)


def test_upstream_settings_come_entirely_from_the_higher_layer(tmp_path: Path) -> None:
    proxy = "settings: {{upstream: {{proxy: 'http://{}.corp.example:3128'}}}}"
    policy = layers(
        tmp_path,
        user="settings: {upstream: {proxy: 'http://user.corp.example:3128', no_proxy: [a.test]}}",
        organisation=proxy.format("org"),
        project="domains: [a.test]",
    )
    assert str(policy.upstream_proxy("a.test")) == "http://org.corp.example:3128"
    project = layers(tmp_path, project=f"domains: [a.test]\n{proxy.format('project')}")
    assert str(project.upstream_proxy("a.test")) == "http://project.corp.example:3128"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a CA certificate, and a server certificate with its key."""
    return make_authority(tmp_path_factory.mktemp("made"), ["a.test"]).parent


def test_loads_the_certificates_and_names_them_by_file_name_and_hash(made: Path, tmp_path: Path) -> None:
    pem = (made / "ca.crt").read_text()
    written = f"The authority of us all, since 2026:\n{pem}and again\n{pem}"
    (tmp_path / "corp.pem").write_text(written)
    digest = hashlib.sha256(written.encode()).hexdigest()
    got = load_authorities(tmp_path / "corp.pem")
    assert got == Authorities(name=f"corp.pem (sha256 {digest})", pem="")
    assert got.pem == f"{pem}{pem}".strip()


@pytest.mark.parametrize(
    ("change", "what", "hint"),
    [
        (lambda _, __: "", "not a file of certificates", HINT),
        (lambda _, __: "corp", "not a file of certificates", HINT),
        (lambda ca, _: ca + "-----BEGIN X509 CRL-----\n-----END X509 CRL-----", "not a file of certificates", HINT),
        (lambda ca, _: ca.replace("MII", "MIJ"), "contains an invalid certificate", HINT),
        (lambda ca, _: ca[:200], "contains an invalid certificate", HINT),
        (lambda _, leaf: leaf.partition("-----BEGIN P")[0], "contains a certificate that is not of a CA", LEAF_HINT),
        (
            lambda ca, leaf: ca + leaf.partition("-----BEGIN P")[0],
            "contains a certificate that is not of a CA",
            LEAF_HINT,
        ),
        (lambda _, leaf: leaf, "contains a private key", "remove the key, and replace it"),
    ],
)
def test_rejects_invalid_certificates_certificates_of_servers_and_private_keys(
    made: Path, tmp_path: Path, change: Callable[[str, str], str], what: str, hint: str
) -> None:
    (tmp_path / "corp.pem").write_text(change((made / "ca.crt").read_text(), (made / "leaf.pem").read_text()))
    with pytest.raises(UserError) as caught:
        load_authorities(tmp_path / "corp.pem")
    assert str(caught.value).startswith(f"{tmp_path}/corp.pem: {what}")
    assert hint in str(caught.value)


def test_rejects_links_pipes_and_missing_files(made: Path, tmp_path: Path) -> None:
    (tmp_path / "link.pem").symlink_to(made / "ca.crt")
    os.mkfifo(tmp_path / "pipe.pem")
    for name, what in (("link", "symbolic link"), ("pipe", "not a regular file"), ("none", "no such file")):
        with pytest.raises(UserError, match=what):
            load_authorities(tmp_path / f"{name}.pem")
