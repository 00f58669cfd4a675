from copy import deepcopy
from typing import Any

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.login import SHAPE, faults_of_login, read_login
from agent_sandbox.agents.shape import faults
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import shipped_services
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
TEMPLATES = data_root() / "templates"


def changed(path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a file holds
    said = deepcopy(SAID)
    *above, name = path.split(".")
    place = said
    for part in above:
        place = place[part]
    place[name] = value
    return said


def test_reads_a_login_from_the_manifest() -> None:
    assert list(faults(SAID, SHAPE)) == []
    assert list(faults_of_login(SAID, (".a",))) == []
    login = read_login(SAID)
    assert (login.secret, login.hosts, login.renew) == ("a.login", ("api.test.example",), ("a", "status"))
    assert login.tokens["refresh"].claims == ("/exp",)


@each(
    ("path", "value", "told"),
    [
        ("file", ".b/x.json", "`login.file` is .b/x.json, which is not in a directory of `state`"),
        ("tokens", {"refresh": {"at": "/r", "begins": "r"}}, "`login.tokens` has no `access`"),
        ("tokens.access", {"at": "/x"}, "`login.tokens.access` must have either `begins` or `claims`"),
        ("copied", ["/plan", "/t/scopes", "/t"], "`login.copied` names /t, which is or has the access token"),
        ("copied", ["/t/scopes", "/t/access/x"], "`login.copied` names /t/access/x, which is or has the access token"),
        ("refresh.answer", {"a": "{/b}"}, "`login.refresh.answer.a` is {/b}, which `login.copied` does not name"),
        ("refresh.answer", {"a": "{id}"}, "`login.refresh.answer.a` is {id}, but `login.tokens` has no `id`"),
    ],
)
def test_a_login_that_contradicts_itself_is_rejected(path: str, value: object, told: str) -> None:
    said = changed(path, value)
    assert list(faults(said, SHAPE)) == []
    assert told in list(faults_of_login(said, (".a",)))


@each(
    ("path", "value"),
    [
        ("hosts", ["*.test"]),
        ("file", "/etc/passwd"),
        ("file", ".a/../x"),
        ("refresh.endpoints", ["http://login.test/token"]),
        ("refresh.endpoints", ["https://login.test/token?x=1"]),
        ("tokens.root", {"at": "/x", "begins": "a"}),
        ("copied", ["no/slash"]),
        ("renew", ["sh", "-c", "x; y"]),
        ("expires.unit", "days"),
        ("more", 1),
    ],
)
def test_a_login_with_invalid_values_is_rejected(path: str, value: object) -> None:
    assert list(faults(changed(path, value), SHAPE))


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
        assert allowed.issuperset({url.split("/")[2] for url in login.endpoints})
