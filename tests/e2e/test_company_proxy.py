"""A company network: an upstream proxy with a password is the only way out, and a company CA signs for all servers."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import proxy_image, run
from real_stacks import LAB, Internet, Project, Projects, make_network, remove_network, trust

COMPANY = "agent-sandbox-test-company"
HOST = "api.anthropic.com"
POLICY = """\
settings:
  upstream: {proxy: "http://proxy.corp.example:3128", ca: corp-ca.pem}
"""


@pytest.fixture(scope="module")
def company(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the upstream proxy: in the company's network, which is internal, and in the stand-in's network."""
    folder = tmp_path_factory.mktemp("company")
    shutil.copy(LAB / "upstream_proxy_container.py", folder)
    folder.chmod(0o755)
    make_network(COMPANY, "--internal")
    run(
        "docker", "create", f"--name={COMPANY}", f"--network={COMPANY}", "--network-alias=proxy.corp.example",
        f"--volume={folder}:/lab:ro", "--entrypoint=python3", proxy_image(), "/lab/upstream_proxy_container.py",
        "--port=3128", "--credentials=me:hunter2",
    )  # fmt: skip
    run("docker", "network", "connect", internet.name, COMPANY)
    run("docker", "start", COMPANY)
    yield COMPANY
    remove_network(COMPANY)


@pytest.fixture(scope="module")
def home(internet: Internet, projects: Projects) -> Path:
    """A home directory with a user policy and no credentials yet."""
    home = projects.folder / "home"
    folder = home / ".config" / "agent-sandbox"
    folder.mkdir(parents=True)
    shutil.copy(internet.ca, folder / "corp-ca.pem")
    (folder / "policy.yaml").write_text(POLICY)
    return home


@pytest.fixture(scope="module")
def project(company: str, home: Path, projects: Projects) -> Project:
    """A stack whose egress is the company's network."""
    project = projects.make("behind", "claude", home=home)
    networks = {"egress": {"external": True, "name": company}}
    project.override.write_text(json.dumps({"networks": networks}))
    trust(project.path)
    project.compose("up", "--detach", "--wait")
    return project


def asked() -> list[tuple[str, bool]]:
    """Return each request to the upstream proxy, and whether it had the right credentials."""
    lines = map(json.loads, run("docker", "logs", COMPANY).stdout.splitlines())
    return [(line["asked"], line["known"]) for line in lines]


def test_allowed_requests_and_no_others_go_through_the_upstream_proxy(project: Project, home: Path) -> None:
    tunnel, before = f"CONNECT {HOST}:443 HTTP/1.1", len(project.internet.requests(HOST))
    status, body = project.curl(f"https://{HOST}/unknown")
    assert (status, "the upstream proxy requires credentials" in body) == (502, True)
    assert asked() == [(tunnel, False)]
    (home / ".config" / "agent-sandbox" / "upstream-auth").write_text("me:hunter2\n")
    assert project.curl(f"https://{HOST}/known")[0] == 200
    assert project.curl("https://denied.test/")[0] == 403
    # curl gets HTTP/2, and the server does not choose HTTP/1.1 by ALPN, so there is a second connection.
    assert asked() == [(tunnel, False), (tunnel, True), (tunnel, True)]
    assert [request["path"] for request in project.internet.requests(HOST)[before:]] == ["/known"]
    told = project.sandbox("status").stdout
    assert "all allowed requests go through http://proxy.corp.example:3128" in told
    kept = (*project.traffic(), project.containers()["proxy"])
    assert [one for one in kept if "hunter2" in json.dumps(one)] == []
    run("docker", "stop", "--time=0", COMPANY)
    status, body = project.curl(f"https://{HOST}/gone")
    assert (status, "the upstream proxy" in body) == (502, True)
    assert len(project.internet.requests(HOST)) == before + 1
