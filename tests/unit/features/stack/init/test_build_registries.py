from pathlib import Path

import pytest

from agent_sandbox.features.policy.registries import Machine, image_machine
from agent_sandbox.features.stack.init import build_registries
from agent_sandbox.features.stack.init.build_registries import machine_registries, mirror_variables, npms_own_registry
from agent_sandbox.images import NPM_REGISTRY, PIP_INDEX
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


MIRROR = "https://packages.test/api/pypi/all/simple"
PYTHON = {"PIP_INDEX_URL": MIRROR, "UV_DEFAULT_INDEX": MIRROR}
NODE = {"npm_config_registry": "https://npm.test/r/", "YARN_NPM_REGISTRY_SERVER": "https://npm.test/r/"}


@each(
    ("environ", "found"),
    [
        ({}, {}),
        ({"PIP_INDEX_URL": MIRROR}, PYTHON),
        ({"UV_DEFAULT_INDEX": f"corp={MIRROR}"}, PYTHON),
        ({"UV_INDEX_URL": MIRROR, "PIP_INDEX_URL": "https://a.test"}, PYTHON | {"PIP_INDEX_URL": "https://a.test"}),
        ({"npm_config_registry": "https://npm.test/r/"}, NODE),
        ({"YARN_NPM_REGISTRY_SERVER": "https://npm.test/r/"}, {"YARN_NPM_REGISTRY_SERVER": "https://npm.test/r/"}),
        (
            {"PIP_INDEX_URL": "http://ann:pw@[2001:db8::1]:81/x"},
            dict.fromkeys(PYTHON, "http://[2001:db8::1]:81/x") | {"PIP_TRUSTED_HOST": "[2001:db8::1]:81"},
        ),
        ({"PIP_INDEX_URL": "/opt/wheels", "NPM_CONFIG_REGISTRY": "file:///x"}, {}),
    ],
)
def test_leads_the_tools_inside_to_the_mirrors_that_variables_name(
    environ: dict[str, str], found: dict[str, str]
) -> None:
    assert mirror_variables(machine(Path("/nonexistent"), **environ), dict) == found


@each(
    "url",
    [
        "https://localhost:3141/x",
        "http://LOCALHOST",
        "https://me.localhost/",
        "http://127.0.0.1:3141/",
        "http://[::1]/",
    ],
)
def test_leaves_out_mirrors_on_this_machine_itself(url: str) -> None:
    assert mirror_variables(machine(Path("/nonexistent"), PIP_INDEX_URL=url), dict) == {}


def test_reads_mirrors_from_the_users_files_unless_a_file_of_the_project_names_another(tmp_path: Path) -> None:
    (tmp_path / "home" / ".config" / "uv").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "uv" / "uv.toml").write_text(
        f'[[index]]\nurl = "https://more.test/"\n[[index]]\nurl = "{MIRROR}"\ndefault = true\n'
    )
    (tmp_path / "home" / ".npmrc").write_text("//npm.test/:_authToken=x\nregistry=https://npm.test/r/\n")
    (tmp_path / "home" / ".yarnrc.yml").write_text('npmRegistryServer: "https://yarn.test/"\n')
    both = PYTHON | NODE | {"YARN_NPM_REGISTRY_SERVER": "https://yarn.test/"}
    here = machine(tmp_path)
    assert mirror_variables(here, dict) == both
    own = {
        ".npmrc": "registry = https://other.test/\n",
        "pyproject.toml": '[[tool.uv.index]]\nurl = "https://other.test/"\ndefault = true\n',
    }
    assert mirror_variables(here, lambda: own) == {
        "PIP_INDEX_URL": MIRROR,
        "YARN_NPM_REGISTRY_SERVER": "https://yarn.test/",
    }
    assert mirror_variables(here, lambda: {".npmrc": "@corp:registry=https://other.test/\n"}) == both
    chosen = machine(tmp_path, npm_config_registry="https://npm.test/r/", UV_INDEX_URL=MIRROR)
    assert mirror_variables(chosen, lambda: own) == both


@pytest.mark.parametrize(
    "text", ["index = 3", "[index]\nurl = 1", "[[index]]\ndefault = true", "no toml", "index = [1]"]
)
def test_ignores_a_configuration_of_uv_that_names_no_index(tmp_path: Path, text: str) -> None:
    (tmp_path / "home" / ".config" / "uv").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "uv" / "uv.toml").write_text(text)
    assert mirror_variables(machine(tmp_path), dict) == {}


@each(
    ("url", "told"),
    [
        ("https://pypi.test/550e8400-e29b-41d4-a716-446655440000/simple/", False),
        ("https://npm.test/glpat-Ab3dEf_Gh1jKlMn-OpQr/", False),
        ("https://1a2b3c4d5e6f7a8b9c0d1e2f.pkg.test/simple", False),
        ("https://artifacts.corp.test/api/pypi/pypi-python3-remote-virtual/simple", True),
        ("https://artifactory-eu-west-2.corp.test/repository/npm-proxy/", True),
    ],
)
def test_a_mirror_whose_url_may_hold_a_token_is_not_told(url: str, *, told: bool) -> None:
    assert build_registries._without_credentials(url) == (url if told else "")
