from copy import deepcopy
from typing import Any

import pytest
import yaml

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.login import Login
from agent_sandbox.agents.manifest import AgentManifest, parse_manifest
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.problems import UserError
from agent_sandbox.resources import data_root
from table_tests import each

SAID: dict[str, Any] = {
    "service": "a",
    "hosts": ["api.test.example"],
    "file": ".a/login.json",
    "tokens": {"access": {"at": "/t/access", "begins": "x-"}, "refresh": {"at": "/t/refresh", "claims": ["/exp"]}},
    "expires": {"at": "/t/expires", "unit": "seconds"},
    "plan": "/plan",
    "copied": ["/plan", "/t/scopes"],
    "refresh": {"endpoints": ["https://login.test/token"], "answer": {"scope": "{/t/scopes}", "a": "{access}"}},
    "renew": ["a", "status"],
    "sign_in": ["a", "login"],
}
MANIFEST: dict[str, Any] = {
    "name": "a",
    "title": "A",
    "summary": "An agent",
    "install": {"npm": {"package": "a", "version": "1.2.3"}},
    "command": ["a"],
    "version_command": ["a", "--version"],
    "unattended": {},
    "state": [".a"],
    "services": ["a"],
}
TEMPLATES = data_root() / "templates"


def changed(path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a file holds
    said = deepcopy(SAID)
    *above, name = path.split(".")
    place = said
    for part in above:
        place = place[part]
    place[name] = value
    return said


FILE = "not a file in a directory of the home directory"
BELOW = "write it without `..`, from the home directory"


def parse(said: dict[str, Any]) -> AgentManifest:
    return parse_manifest(yaml.safe_dump(said, sort_keys=False), file="f")


def faults(path: str, value: object) -> list[str]:
    """Return the problems of a manifest whose login has this value, without the name of its file."""
    with pytest.raises(UserError) as raised:
        parse(MANIFEST | {"login": changed(path, value)})
    return [str(problem).removeprefix("f:") for problem in raised.value.problems]


def test_reads_a_login_from_the_manifest() -> None:
    login = parse(MANIFEST | {"login": SAID}).login
    assert login is not None
    assert (login.secret, login.hosts, login.renew) == ("a.login", ("api.test.example",), ("a", "status"))
    assert login.tokens["refresh"].claims == ("/exp",)


@each(
    ("path", "value", "told"),
    [
        ("file", ".b/x.json", ["22:9: `login.file` is .b/x.json, which is not in a directory of `state`"]),
        (
            "tokens",
            {"refresh": {"at": "/r", "begins": "r"}},
            [
                "24:5: `login.tokens` has no `access`",
                "39:10: `login.refresh.answer.a` is {access}, but `login.tokens` has no `access`",
            ],
        ),
        ("tokens.access", {"at": "/x"}, ["25:7: `login.tokens.access` must have either `begins` or `claims`"]),
        (
            "copied",
            ["/plan", "/t/scopes", "/t"],
            [
                "38:5: `login.copied` names /t, which is or has the access token",
                "38:5: `login.copied` names /t, which is or has the refresh token",
            ],
        ),
        (
            "copied",
            ["/t/scopes", "/t/access/x"],
            ["37:5: `login.copied` names /t/access/x, which is or has the access token"],
        ),
        (
            "refresh.answer",
            {"a": "{/b}"},
            ["42:10: `login.refresh.answer.a` is {/b}, which `login.copied` does not name"],
        ),
        ("refresh.answer", {"a": "{id}"}, ["42:10: `login.refresh.answer.a` is {id}, but `login.tokens` has no `id`"]),
        ("hosts", ["*.test"], ["21:5: not a host: '*.test'; write its whole name, without wildcards"]),
        ("file", "/etc/passwd", [f"22:9: {FILE}: '/etc/passwd'; {BELOW}"]),
        ("file", ".a/../x", [f"22:9: {FILE}: '.a/../x'; {BELOW}"]),
        (
            "refresh.endpoints",
            ["http://login.test/token"],
            ["40:7: not an endpoint: 'http://login.test/token'; write `https://HOST/PATH`, without a query"],
        ),
        (
            "refresh.endpoints",
            ["https://login.test/token?x=1"],
            ["40:7: not an endpoint: 'https://login.test/token?x=1'; write `https://HOST/PATH`, without a query"],
        ),
        ("tokens.root", {"at": "/x", "begins": "a"}, ["31:5: invalid value 'root'; write 'access', 'refresh' or 'id'"]),
        ("copied", ["no/slash"], ["36:5: not a JSON pointer: 'no/slash'; write `/KEY/KEY`"]),
        (
            "renew",
            ["sh", "-c", "x; y"],
            ["47:5: not a plain word of a command: 'x; y'; use letters, digits and `_.=/-`"],
        ),
        ("expires.unit", "days", ["33:11: invalid value 'days'; write 'seconds', 'milliseconds' or 'jwt'"]),
        ("more", 1, [f"50:3: unknown key 'more'; known: {', '.join(sorted(Login.model_fields))}"]),
    ],
)
def test_reports_invalid_and_contradictory_values_of_a_login(path: str, value: object, told: list[str]) -> None:
    assert faults(path, value) == told


def test_the_hosts_of_each_login_are_the_hosts_that_its_service_injects_it_for() -> None:
    manifests = (load_manifest(TEMPLATES, name) for name in known_agents(TEMPLATES))
    logins = [manifest.login for manifest in manifests if manifest.login is not None]
    assert logins
    for login in logins:
        service = shipped_services()[login.service].spec
        auth = service.declared["login"]
        assert isinstance(auth, Auth)
        assert login.hosts == (auth.host, *auth.more_hosts)
        # A refresh request is answered only if the policy allows it.
        allowed = {str(entry.host) for entry in service.domains}
        assert allowed.issuperset({url.split("/")[2] for url in (login.refresh.endpoints if login.refresh else ())})
