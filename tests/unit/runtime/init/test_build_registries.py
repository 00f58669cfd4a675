from pathlib import Path

from agent_sandbox.images import NPM_REGISTRY, PIP_INDEX
from agent_sandbox.runtime.init.build_registries import machine_registries, npms_own_registry
from agent_sandbox.runtime.policies.registries import Machine, image_machine
from table_tests import each

BOTH = (NPM_REGISTRY, PIP_INDEX)


def machine(root: Path, **environ: str) -> Machine:
    return Machine(environ={"HOME": str(root / "home"), **environ}, run=lambda _: "", root=root)


def test_without_configuration_the_tools_use_their_defaults(tmp_path: Path) -> None:
    assert machine_registries(machine(tmp_path), BOTH) == {}


def test_reads_registries_from_the_users_files_without_credentials(tmp_path: Path) -> None:
    (tmp_path / "home" / ".config" / "pip").mkdir(parents=True)
    (tmp_path / "home" / ".npmrc").write_text("//npm.test/:_authToken=x\nregistry=https://npm.test/r/\n")
    (tmp_path / "home" / ".config" / "pip" / "pip.conf").write_text(
        "[global]\nextra-index-url = https://no.test\nindex-url = https://ann:secret@pypi.test/simple\n"
    )
    assert machine_registries(machine(tmp_path), BOTH) == {
        NPM_REGISTRY: "https://npm.test/r/",
        PIP_INDEX: "https://pypi.test/simple",
    }
    assert machine_registries(machine(tmp_path), (PIP_INDEX,)) == {PIP_INDEX: "https://pypi.test/simple"}


@each(
    ("environ", "found"),
    [
        ({"PIP_INDEX_URL": "https://a.test"}, {PIP_INDEX: "https://a.test"}),
        ({"npm_config_registry": "http://a.test:81/x"}, {NPM_REGISTRY: "http://a.test:81/x"}),
        ({"PIP_INDEX_URL": "/opt/wheels", "NPM_CONFIG_REGISTRY": "file:///x"}, {}),
        ({"PIP_INDEX_URL": "https://[", "NPM_CONFIG_REGISTRY": "https://"}, {}),
    ],
)
def test_reads_registries_from_variables_and_ignores_values_that_are_not_server_urls(
    environ: dict[str, str], found: dict[str, str]
) -> None:
    assert machine_registries(machine(Path("/nonexistent"), **environ), BOTH) == found


def test_variables_override_files(tmp_path: Path) -> None:
    (tmp_path / "home" / ".pip").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "home" / ".npmrc").write_text("registry=https://file.test\n")
    for name in ("home/.pip/pip.conf", "etc/pip.conf"):
        (tmp_path / name).write_text("[global]\nindex-url = https://file.test\n")
    variables = {"npm_config_registry": "https://npm.test", "PIP_INDEX_URL": "https://pypi.test"}
    assert machine_registries(machine(tmp_path, **variables), BOTH) == {
        NPM_REGISTRY: "https://npm.test",
        PIP_INDEX: "https://pypi.test",
    }


def test_asks_npm_for_its_registry_on_each_machine_and_uses_the_first_url() -> None:
    def with_npm(said: str) -> Machine:
        return image_machine(lambda argv: said if tuple(argv) == ("npm", "config", "get", "registry") else "")

    answers = ("", "undefined\n", "https://ann:secret@npm.test/\n", "https://other.test/\n")
    machines = [with_npm(said) for said in answers]
    assert npms_own_registry(machines) == {NPM_REGISTRY: "https://npm.test/"}
    assert npms_own_registry(machines[:2]) == {}
