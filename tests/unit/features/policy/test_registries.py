import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.registries import (
    ASK,
    FILES,
    PIP_DEFAULT,
    Machine,
    Named,
    NoRegistryError,
    answer_of,
    apt_uris,
    image_machine,
    registries,
    this_machine,
)
from agent_sandbox.policyfile.resolved import RESOLVED, TOOLS
from agent_sandbox.problems import UserError

SOURCES = """\
# URIs: http://comment.example.org/
Types: deb
# http://comment.example.org/x
URIs: http://deb.example.org/debian https://deb2.example.org/debian
Suites: stable
Signed-By: https://key.example.org/x

Types: deb
Enabled: no
URIs: http://off.example.org/debian
"""
LIST = """\
# deb http://comment.example.org/debian stable main
deb [signed-by=/usr/share/x.gpg] http://deb.example.org/debian stable main
deb-src https://src.example.org/debian stable main
"""


def machine(tmp_path: Path, *, says: Mapping[str, str] | None = None, **environ: str) -> Machine:
    """Return a machine whose programs print a text chosen by a word of their command line."""

    def run(argv: Sequence[str]) -> str:
        return next((out for word, out in (says or {}).items() if word in " ".join(argv)), "")

    return Machine(environ={"HOME": str(tmp_path / "home"), **environ}, run=run, root=tmp_path)


def hosts(found: Named | Sequence[Offer]) -> dict[str, tuple[str, ...]]:
    offers = found.offers() if isinstance(found, Named) else found
    return {offer.host: offer.files for offer in offers}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_uses_pips_own_default_if_no_index_is_configured(tmp_path: Path) -> None:
    says = {
        "--version": "pip 1",
        "config list": "global.timeout='180'\n",
        "-c": "https://i.example.org/ https://f.example.org/",
    }
    found = registries("python", tmp_path, machine(tmp_path, says=says))
    assert hosts(found) == {"i.example.org": ("pip's own default",), "f.example.org": ("pip's own default",)}


@pytest.mark.parametrize(
    ("says", "environ"),
    [
        ({"config list": "global.index-url='https://me:secret@mirror.example.org/simple'\n"}, {}),
        ({}, {"PIP_INDEX_URL": "https://mirror.example.org/simple"}),
        ({}, {"UV_DEFAULT_INDEX": "https://mirror.example.org/simple"}),
    ],
)
def test_a_configured_index_replaces_pips_default(
    tmp_path: Path, says: dict[str, str], environ: dict[str, str]
) -> None:
    every = {**says, "--version": "pip 1", "-c": "https://default.example.org/"}
    found = registries("python", tmp_path, machine(tmp_path, says=every, **environ))
    assert list(hosts(found)) == ["mirror.example.org"]


def test_extra_indexes_are_added_to_pips_default(tmp_path: Path) -> None:
    config = (
        "global.extra-index-url='https://a.example.org/simple https://b.example.org/simple'\nglobal.find-links='/opt'\n"
    )
    says = {"--version": "pip 1", "config list": config, "-c": "https://i.example.org/"}
    found = registries("python", tmp_path, machine(tmp_path, says=says, UV_INDEX="x=https://c.example.org/simple"))
    assert hosts(found) == {
        "a.example.org": ("pip's configuration",),
        "b.example.org": ("pip's configuration",),
        "c.example.org": ("UV_INDEX",),
        "i.example.org": ("pip's own default",),
    }


def test_reads_files_of_the_project_and_of_the_home_directory(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".npmrc", "@me:registry=https://me.example.org/")
    project = tmp_path / "project"
    write(project / "package-lock.json", '"resolved": "https://npm.example.org/a.tgz"')
    write(project / "uv.lock", 'registry = "https://other.example.org/simple"')
    found = registries("node", project, machine(tmp_path, says={"npm config": "https://npm.example.org/\n"}))
    assert hosts(found) == {
        "me.example.org": ("~/.npmrc",),
        "npm.example.org": ("npm's configuration", "package-lock.json"),
    }


def test_asks_about_registries_that_only_the_project_names(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project / "requirements.txt", "--extra-index-url https://evil.example.org/simple\n")
    write(
        project / "uv.lock",
        'registry = "https://mirror.example.org:443/simple"\nregistry = "https://mirror.example.org:8443/simple"',
    )
    here = machine(tmp_path, PIP_INDEX_URL="https://mirror.example.org/simple")
    found = registries("python", project, here)
    assert hosts(found) == {"mirror.example.org": ("PIP_INDEX_URL", "uv.lock")}
    assert [(offer.host, offer.ports) for offer in found.offers()] == [("mirror.example.org", (443,))]
    assert [(offer.host, offer.ports) for offer in found.asked] == [
        ("evil.example.org", ()),
        ("mirror.example.org", (8443,)),
    ]
    assert list(hosts(found.offers({"evil.example.org"}))) == ["evil.example.org", "mirror.example.org"]


def test_many_registries_in_the_project_do_not_displace_those_of_the_machine(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project / "requirements.txt", "".join(f"-i https://a{n}.example.org/\n" for n in range(60)))
    found = registries("python", project, machine(tmp_path, PIP_INDEX_URL="https://mirror.example.org/simple"))
    assert list(hosts(found)) == ["mirror.example.org"]


def test_reads_apt_sources_only_on_debian(tmp_path: Path) -> None:
    write(tmp_path / "etc" / "os-release", "NAME=Debian\nID=debian\n")
    write(tmp_path / "etc" / "apt" / "sources.list.d" / "debian.sources", SOURCES)
    write(tmp_path / "etc" / "apt" / "sources.list.d" / "off.list.disabled", LIST)
    assert hosts(registries("debian", tmp_path, machine(tmp_path))) == {
        "deb.example.org": ("/etc/apt/sources.list.d/debian.sources",),
        "deb2.example.org": ("/etc/apt/sources.list.d/debian.sources",),
    }
    write(tmp_path / "etc" / "os-release", "ID=ubuntu\nID_LIKE=debian\n")
    with pytest.raises(UserError) as error:
        registries("debian", tmp_path, machine(tmp_path))
    assert str(error.value) == (
        "debian: no configuration on this machine or in the project names a public registry; "
        "configure apt, or name a file of its configuration: --from FILE; "
        "a mirror in a private network goes under `host_services` in policy.yaml"
    )


def test_apt_uris_skips_comments_and_disabled_sources() -> None:
    assert apt_uris("a.sources", SOURCES) == "URIs: http://deb.example.org/debian https://deb2.example.org/debian"
    assert apt_uris("a.list", LIST).splitlines() == LIST.splitlines()[1:]
    assert apt_uris("a.txt", LIST) == ""


def test_reads_registries_from_files_that_the_user_names(tmp_path: Path) -> None:
    sources = write(tmp_path / "box.sources", SOURCES)
    npmrc = write(tmp_path / "else" / ".npmrc", "registry=https://npm.example.org/")
    assert list(hosts(registries("debian", tmp_path, machine(tmp_path), more=[sources]))) == [
        "deb.example.org",
        "deb2.example.org",
    ]
    assert hosts(registries("node", tmp_path, machine(tmp_path), more=[npmrc])) == {"npm.example.org": (".npmrc",)}
    with pytest.raises(UserError, match=r"gone: cannot be read: No such file or directory"):
        registries("node", tmp_path, machine(tmp_path), more=[tmp_path / "gone"])


def test_finds_nothing_without_a_home_directory_and_tools(tmp_path: Path) -> None:
    bare = Machine(environ={}, run=lambda _: "", root=tmp_path)
    for name in RESOLVED:
        with pytest.raises(UserError):
            registries(name, tmp_path, bare)


def test_runs_programs_in_the_root_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    path = {"PATH": "/usr/bin:/bin"}
    assert answer_of(("pwd",), environment=path) == "/\n"
    assert [answer_of((program,), environment=path) for program in ("false", str(tmp_path / "none"))] == ["", ""]


def test_runs_no_program_that_an_agent_could_have_written(tmp_path: Path) -> None:
    for folder in ("mine", "app/.venv/bin", "other/node_modules/.bin"):
        host = folder.replace("/", ".")
        write(tmp_path / folder / "npm", f"#!/bin/sh\necho https://{host}.example.org/\n").chmod(0o755)
    (tmp_path / "other" / ".devcontainer").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "other" / "node_modules" / ".bin")
    folders = ["app/.venv/bin", "other/node_modules/.bin", "linked", "app/../app/.venv/bin", "mine"]
    path = ":".join(["node_modules/.bin", "", *(str(tmp_path / folder) for folder in folders), "/usr/bin", "/bin"])
    here = this_machine({"PATH": path}, project=tmp_path / "app")
    assert here.run(("npm", "config", "get", "registry")) == "https://mine.example.org/\n"
    (tmp_path / "mine" / "npm").unlink()
    assert "app" not in here.run(("npm", "config", "get", "registry"))
    assert "other" not in here.run(("npm", "config", "get", "registry"))


def test_runs_no_interpreter_from_a_project(tmp_path: Path) -> None:
    write(tmp_path / "bin" / "npm", "#!/usr/bin/env node\n").chmod(0o755)
    write(tmp_path / "app" / "node", "#!/bin/sh\necho https://evil.example.org/\n").chmod(0o755)
    path = f"{tmp_path}/app:{tmp_path}/bin:/bin"
    here = this_machine({"PATH": path}, project=tmp_path / "app")
    assert "evil" not in here.run(("npm", "config", "get", "registry"))


def test_runs_python_in_isolated_mode(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def run(argv: Sequence[str]) -> str:
        asked.append(tuple(argv))
        return "https://i.example.org/" if "-c" in argv else ""

    registries("python", tmp_path, Machine(environ={}, run=run, root=tmp_path))
    assert {argv[1] for argv in asked} == {"-I"}


def test_each_resolved_service_has_its_tool_and_its_files() -> None:
    tools: dict[str, Callable[..., object]] = dict(ASK)
    assert (set(tools), set(FILES)) == (set(TOOLS), set(RESOLVED))


def test_reads_the_registries_of_an_image_with_its_own_programs(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def run(argv: Sequence[str]) -> str:
        asked.append(tuple(argv))
        texts = {
            ("cat", "/etc/os-release"): "ID=debian",
            ("ls", "/etc/apt/sources.list.d"): "debian.sources\nnew.list\noff.list.disabled\n",
            ("cat", "/etc/apt/sources.list.d/debian.sources"): SOURCES,
            ("cat", "/etc/apt/sources.list.d/new.list"): "deb https://new.example.org/ x main",
            ("npm", "config", "get", "registry"): "https://npm.example.org/",
        }
        return texts.get(tuple(argv), "")

    image = image_machine(run)
    assert hosts(registries("debian", tmp_path, image)) == {
        "deb.example.org": ("/etc/apt/sources.list.d/debian.sources in the image",),
        "deb2.example.org": ("/etc/apt/sources.list.d/debian.sources in the image",),
        "new.example.org": ("/etc/apt/sources.list.d/new.list in the image",),
    }
    assert hosts(registries("node", tmp_path, image)) == {"npm.example.org": ("npm's configuration in the image",)}
    with pytest.raises(NoRegistryError):
        registries("python", tmp_path, image)
    assert {argv[0] for argv in asked} == {"cat", "ls", "npm", "python3"}


@pytest.mark.parametrize("name", ["npm", "pnpm", "yarn"])
def test_asks_the_node_tool_that_is_installed(tmp_path: Path, name: str) -> None:
    def run(argv: Sequence[str]) -> str:
        return "https://npm.example.org/" if argv[0] == name else ""

    found = registries("node", tmp_path, Machine(environ={}, run=run, root=tmp_path))
    assert hosts(found) == {"npm.example.org": (f"{name}'s configuration",)}


def test_reads_pips_files_if_pip_is_not_installed(tmp_path: Path) -> None:
    write(
        tmp_path / "home" / ".config" / "pip" / "pip.conf", "[global]\nindex-url = https://me:pw@i.example.org/simple\n"
    )
    write(tmp_path / "etc" / "pip.conf", "[global]\nextra-index-url = https://more.example.org/simple\n")
    found = registries("python", tmp_path, machine(tmp_path))
    assert hosts(found) == {"i.example.org": ("pip's configuration",), "more.example.org": ("pip's configuration",)}


def test_finds_pips_default_without_an_installed_pip() -> None:
    answer = answer_of((sys.executable, "-I", "-S", "-c", PIP_DEFAULT), environment={"PATH": os.defpath})
    assert [urlsplit(url).scheme for url in answer.split()] == ["https", "https"]


GO = """\
GOPROXY=https://a.example.org,https://b.example.org|direct
GOSUMDB=sum.example.com https://sum.example.org
GOFLAGS=-x=https://no.example.org
"""
CARGO = """\
[source.crates-io]
replace-with = "mirror"
[source.mirror]
registry = "sparse+https://me:pw@cargo.example.org/index/"
# index = "https://no.example.org/"
[registries]
mine = { index = "https://inline.example.org" }
[registries.other]
index = "https://git.example.org/index"
[registry]
token = "secret"
"""
MAVEN = """\
<settings><mirrors><mirror><id>m</id><url>https://maven.example.org/m2</url></mirror></mirrors>
<!-- <url>https://no.example.org</url> --><servers><server><password>https://pw.example.org</password></server></servers>
<profiles><profile><repositories><repository><url>
  https://more.example.org/m2</url></repository></repositories></profile></profiles></settings><!-- <url>https://no.example.org</url>
"""
GEMRC = ":sources:\n- https://gems.example.org/\n:url: https://no.example.org\n"
BUNDLE = """\
---
BUNDLE_MIRROR__HTTPS://GEMS__EXAMPLE__COM/: "https://me:pw@gems.example.org/"
BUNDLE_BUILD__X: "--with=https://no.example.org"
"""


@pytest.mark.parametrize(
    ("name", "file", "text", "found"),
    [
        ("go-mirror", ".config/go/env", GO, ["a.example.org", "b.example.org", "sum.example.org"]),
        ("rust-mirror", ".cargo/config.toml", CARGO, ["cargo.example.org", "git.example.org"]),
        ("java-mirror", ".m2/settings.xml", MAVEN, ["maven.example.org", "more.example.org"]),
        ("ruby-mirror", ".bundle/config", BUNDLE, ["gems.example.org"]),
        ("ruby-mirror", ".gemrc", GEMRC, ["gems.example.org"]),
    ],
)
def test_reads_a_mirror_from_the_tools_configuration_file(
    tmp_path: Path, name: str, file: str, text: str, found: list[str]
) -> None:
    write(tmp_path / "home" / file, text)
    assert hosts(registries(name, tmp_path, machine(tmp_path))) == dict.fromkeys(found, (f"~/{file}",))


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("go-mirror", "GOPROXY"),
        ("rust-mirror", "CARGO_REGISTRIES_MINE_INDEX"),
        ("ruby-mirror", "BUNDLE_MIRROR__HTTPS://GEMS__EXAMPLE__COM/"),
    ],
)
def test_reads_a_mirror_from_an_environment_variable(tmp_path: Path, name: str, variable: str) -> None:
    here = replace(machine(tmp_path), environ={variable: "https://me:pw@mirror.example.org/x"})
    assert hosts(registries(name, tmp_path, here)) == {"mirror.example.org": (variable,)}


def test_configuration_that_an_agent_could_have_written_is_ignored(tmp_path: Path) -> None:
    home = write(tmp_path / "home" / ".npmrc", "registry=https://evil.example.org/").parent
    write(tmp_path / "other" / ".devcontainer" / "policy.yaml", "")
    environ = {
        "HOME": str(home),
        "npm_config_userconfig": str(tmp_path / "other" / "npmrc"),
        "NPM_CONFIG_REGISTRY": "https://npm.example.org/",
        "NODE_OPTIONS": f"--require={home}/evil.js",
        "PATH": "/usr/bin:/bin",
    }
    mine = this_machine(environ)
    assert (mine.environ["HOME"], mine.home_text(".npmrc")) == (str(home), "registry=https://evil.example.org/")
    shown = ("printenv", "HOME", "npm_config_userconfig", "NODE_OPTIONS", "NPM_CONFIG_REGISTRY")
    for here in (this_machine(environ, project=home), this_machine(environ, project=tmp_path)):
        assert here.home_text(".npmrc") == ""
        assert "npm_config_userconfig" not in here.environ
        assert "NPM_CONFIG_REGISTRY" in here.environ
        assert here.run((*shown[:4],)).split("\n") == ["/nonexistent", "", "", ""]


def test_a_variable_that_leads_into_another_project_is_ignored(tmp_path: Path) -> None:
    write(tmp_path / "other" / ".devcontainer" / "policy.yaml", "")
    here = this_machine({"PIP_CONFIG_FILE": str(tmp_path / "other" / "pip.conf"), "PATH": "/usr/bin:/bin"})
    assert here.environ == {"PATH": "/usr/bin:/bin"}
