"""Real clients through the real stack, with and without proxy variables (docs/clients.md)."""

import json
from collections.abc import Iterator

import pytest

from client_stand import FRESH, HUNG, IMAGE, clients_image, remove_bazaar, run_client, start_bazaar
from client_table import Client, clients
from fake_forge import TOKEN
from real_stacks import WORK, Internet, Project, Projects, trust
from turns import NIGHTLY

# Each change tries each client once, and these in all ways; `make nightly` tries all in all ways.
IN_ALL_WAYS = {"curl, HTTP/2", "git", "npm", "Node 20, fetch", "Python, requests", "Go, net/http", "Chromium, headless"}


def prepare() -> None:
    clients_image()


@pytest.fixture(scope="module")
def box(projects: Projects, internet: Internet) -> Iterator[Project]:
    """A stack whose agent container has all the clients."""
    start_bazaar(internet)
    project = projects.make("clients", "claude")
    override = json.loads(project.override.read_text())
    override["services"]["agent"] = {"image": IMAGE}
    project.override.write_text(json.dumps(override))
    trust(project.path)
    project.allow(WORK)
    project.compose("up", "--detach", "--wait")
    yield project
    remove_bazaar()


def named(rows: list[Client]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("client", rows, ids=lambda client: client.name)


SEVERAL = [client for client in clients() if NIGHTLY or client.name in IN_ALL_WAYS]


@named([*clients()])
def test_client_works_with_proxy_variables(box: Project, client: Client) -> None:
    ran = run_client(box, client, WORK, proxied=True)
    assert (ran.code, client.says in ran.said) == (0, True), ran.said


@named([client for client in SEVERAL if not client.without])
def test_client_works_without_proxy_variables(box: Project, client: Client) -> None:
    ran = run_client(box, client, WORK, proxied=False)
    assert (ran.code, client.says in ran.said) == (0, True), ran.said


@named(SEVERAL)
def test_client_shows_the_denial_and_nothing_gets_out(box: Project, client: Client) -> None:
    before = len(box.internet.events())
    ran = run_client(box, client, "denied.test", proxied=True)
    assert client.denied in ran.said, ran.said
    assert client.says not in ran.said
    assert ran.code not in HUNG
    assert box.internet.events()[before:] == []


@named([client for client in SEVERAL if client.unknown])
def test_client_without_proxy_variables_cannot_resolve_a_denied_host(box: Project, client: Client) -> None:
    before = len(box.internet.events())
    ran = run_client(box, client, "denied.test", proxied=False)
    assert client.unknown in ran.said, ran.said
    assert ran.code not in {0, *HUNG}
    assert box.internet.events()[before:] == []


FORGE = f"""\
version: 1
services: [claude]
domains:
  - host: {WORK}
    transform: {{request: {{headers: {{Authorization: {{secret: forge, transform: {{type: basic, username: bot}}}}}}}}}}
    rules: [{{path: {{prefix: /git/private/}}}}]
"""
PUSH = f"""\
git clone -q https://{WORK}/git/private/ private && cd private
git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m second
git push -q origin HEAD
git ls-remote origin main | grep "$(git rev-parse HEAD)"
"""


def test_git_clones_and_pushes_with_an_injected_token(box: Project) -> None:
    box.write_policy(FORGE)
    trust(box.path)
    box.sandbox("proxy", "reload")
    refused = box.exec("sh", "-ec", FRESH + PUSH, check=False)
    assert (refused.returncode, "403" in refused.stdout) == (128, True)
    box.sandbox("secret", "set", "forge", "--host", WORK, piped=TOKEN)
    pushed = box.exec("sh", "-ec", FRESH + PUSH)
    assert "refs/heads/main" in pushed.stdout
    assert TOKEN not in pushed.stdout
