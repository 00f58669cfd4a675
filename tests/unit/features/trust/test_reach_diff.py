import re
import shutil
from pathlib import Path

import pytest

from agent_sandbox.features.trust.reach_diff import BROKEN, NOTHING, REPLACES, policy_of, reaches, widens
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policyfile import load_policy
from agent_sandbox.project.trust_snapshot import Standing, look
from certificates import make_authority
from table_tests import each

EXAMPLES = Path(__file__).parents[4] / "docs" / "policy" / "examples"
POLICY = ".devcontainer/policy.yaml"
UNOPENED = "example.org, TLS not inspected"
UNINSPECTED = "the setting `inspect`: false; not set here before"
WATCHED = 'the setting `reload`: "watch"; not set here before'
TO_RESOLVE = "service {}: GET from the registries that {} on this machine is configured for"
SECRET = "{request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"
BASE = "version: 1\ndomains: [example.org, {host: api.example.com, rules: [{methods: [GET], path: {prefix: /v1/}}]}]\n"


def made_of(text: str | None, **services: str) -> Policy:
    beside = {f".devcontainer/services/{name}.yaml": said for name, said in services.items()}
    files = beside if text is None else {**beside, POLICY: text}
    return policy_of(Standing(root=Path("/p"), owner=None, stack_files=(), files=files))


@each(
    ("after", "expected"),
    [
        ("domains: [example.org]", ()),
        ("domains: []", ()),
        ("domains: []\nsettings: {reload: watch}", (WATCHED,)),
        ("allow: [GET https://example.org/x]", ()),
        ("domains: [{host: api.example.com, rules: [{methods: [GET], path: {exact: /v1/me}}]}]", ()),
        (
            "domains: [{host: api.example.com, rules: [{methods: [POST], path: {exact: /v1/me}}]}]",
            ("POST api.example.com/v1/me",),
        ),
        ("# said in other words\ndomains:\n  - example.org", ()),
        ("domains: [example.org]\ndeny: [example.org]", ()),
        ("domains: [example.org, example.net]", ("any method example.net",)),
        ('domains: ["*.example.org"]', ("any method *.example.org",)),
        ("domains: [{host: example.org, ports: [8443]}]", ("any method example.org on port 8443",)),
        (
            "domains: [example.org]\nsettings: {block_status: 418}",
            ("the setting `block_status`: 418; not set here before",),
        ),
        ("domains: [example.org]\nsettings: {reload: watch}", (WATCHED,)),
        ("settings: {ask: unlisted}", ('the setting `ask`: "unlisted"; not set here before',)),
        (
            "settings: {ask: {about: [unlisted], timeout: 90}}",
            (
                'the setting `ask`: "unlisted"; not set here before',
                "the setting `ask_timeout`: 90; not set here before",
            ),
        ),
        ("domains: [{host: example.org, inspect: false}]", (UNOPENED,)),
        ("domains: [example.org]\nsettings: {inspect: false}", (UNINSPECTED, UNOPENED)),
        (
            f"domains: [{{host: example.org, transform: {SECRET}}}]",
            ("any method https://example.org with secret s in x",),
        ),
        (
            "domainz: [everything.test]",
            (BROKEN.strip(), f"{POLICY}:2:1: unknown key 'domainz'; did you mean `domains`?"),
        ),
    ],
)
def test_lists_only_what_the_new_policy_widens(after: str, expected: tuple[str, ...]) -> None:
    assert widens(made_of(f"version: 1\n{after}\n"), made_of(BASE)) == expected


def test_reports_a_removed_deny() -> None:
    denied = made_of(f"{BASE}deny: [GET https://example.org/private]\n")
    assert widens(made_of(BASE), denied) == ("GET, HEAD https://example.org/private, denied before",)


def test_reports_a_removed_rule_that_asks() -> None:
    base = "version: 1\ndomains:\n  - example.org\n"
    asking = made_of(f"{base}  - {{host: example.org, rules: [{{methods: [DELETE], ask: true}}]}}\n")
    assert widens(made_of(base), asking) == ("DELETE example.org, about which a person was asked before",)
    assert widens(asking, made_of(base)) == ()


def test_does_not_report_a_removed_deny_that_a_wider_deny_covers() -> None:
    before = made_of(f"{BASE}deny: [evil.example.org]\n")
    after = made_of(f"{BASE}deny: ['*.example.org']\n")
    assert widens(after, before) == ()


def test_reports_a_removed_service_with_merge_mode_replace() -> None:
    layered = "domains: [example.org]\nservices: [{name: github, merge_mode: replace}]\n"
    assert "what `merge_mode: replace` removed" in widens(made_of(f"version: 1\n{BASE[11:]}"), made_of(layered))


@pytest.mark.parametrize(
    "after",
    [
        "domains: [a.test, b.test]\ntighten: true",
        "deny: [b.test]",
        "tighten: true",
        'domains: ["*.a.test"]\ntighten: true',
    ],
)
def test_reports_a_project_that_widens_or_removes_its_restriction(after: str) -> None:
    before = made_of("version: 1\ntighten: true\ndomains: [a.test]\n")
    assert widens(made_of(f"version: 1\n{after}\n"), before) == ("what layer project restricted",)


@pytest.mark.parametrize("after", ["domains: [a.test]", "allow: [GET https://a.test/x]", "domains: []"])
def test_does_not_report_a_narrower_restriction(after: str) -> None:
    before = made_of("version: 1\ntighten: true\ndomains: [a.test]\n")
    assert widens(made_of(f"version: 1\ntighten: true\n{after}\n"), before) == ()


def test_reports_the_whole_policy_if_there_was_none_before() -> None:
    lines = ("any method example.org", "GET, HEAD api.example.com/v1/...")
    assert widens(made_of(BASE), NOTHING) == lines


@pytest.mark.parametrize("text", [None, "", "version: 1"])
def test_reports_nothing_for_an_empty_policy(text: str | None) -> None:
    assert widens(made_of(text), NOTHING) == ()


@pytest.mark.parametrize("text", ["domainz: [x.test]", "\udcff", "a: [", "services: [unknown]"])
def test_reports_an_invalid_policy(text: str) -> None:
    assert widens(made_of(text), NOTHING)[0] == BROKEN.strip()
    assert widens(made_of(text), made_of(BASE))[0] == BROKEN.strip()


def test_reports_a_removed_deny_even_if_the_project_does_not_allow_the_host() -> None:
    before = made_of("version: 1\ndomains: [a.test]\ndeny: [b.test]\n")
    told = ("any method b.test, denied before",)
    assert widens(made_of("version: 1\ndomains: [a.test]\n"), before) == told
    assert widens(made_of("version: 1\n"), before) == told
    assert widens(made_of("version: 1\ndeny: [b.test]\n"), before) == ()


def test_reports_a_removed_merge_mode_and_a_removed_block_status() -> None:
    plain = "version: 1\ndomains: [{host: a.test, rules: [{methods: [GET]}]}]\n"
    replacing = made_of(plain.replace("a.test,", "a.test, merge_mode: replace,"))
    assert widens(made_of(plain), replacing) == ("what `merge_mode: replace` removed",)
    teapot = made_of(f"{plain}settings: {{block_status: 418}}\n")
    assert widens(made_of(plain), teapot) == ("the setting `block_status`: no longer set here; before: 418",)


def test_reports_a_new_merge_mode_replace_on_a_host_without_inspection() -> None:
    before = made_of("version: 1\ndomains: [{host: a.test, inspect: false}]\n")
    after = made_of("version: 1\ndomains: [{host: a.test, inspect: false, merge_mode: replace}]\n")
    assert widens(after, before) == (REPLACES.format("a.test"),)
    assert widens(before, before) == widens(after, after) == ()


@each(
    ("before", "after", "told"),
    [
        ("inspect: true", "block_status: 403", False),
        ("inspect: false", "block_status: 403", False),
        ("inspect: false", "inspect: true", False),
        ("reload: watch", "block_status: 403", False),
        ("reload: watch", "reload: restart", False),
        ("inspect: true", "inspect: false", True),
        ("reload: restart", "reload: watch", True),
        ("http1: lane", "block_status: 403", False),
        ("http1: auto", "http1: lane", False),
        ("http1: lane", "http1: auto", False),
    ],
)
def test_reports_a_changed_setting_only_if_it_widens(before: str, after: str, *, told: bool) -> None:
    plain = "version: 1\ndomains: [{host: a.test, rules: [{methods: [GET]}]}]\nsettings: {block_status: 403, "
    one, other = (
        made_of(f"{plain}{said}}}\n".replace("block_status: 403, block", "block")) for said in (before, after)
    )
    assert any("the setting" in line for line in widens(other, one)) is told


def test_reports_the_number_of_rules_of_a_service() -> None:
    (line,) = widens(made_of("version: 1\nservices: [github]\n"), NOTHING)
    assert re.fullmatch(r"service github: \d+ rules", line)


@each(
    ("entry", "line"),
    [
        ("{name: github, readonly: true}", r"service github with readonly: true: \d+ rules"),
        (
            "{name: github, repos: [o/n], git: {access: readwrite}}",
            r'service github with repos: \["o/n"\], git: {"access": "readwrite"}: \d+ rules',
        ),
        (
            f"{{name: github, repos: [{', '.join(f'owner/n{n}' for n in range(30))}]}}",
            r"service github with .{200}\.\.\.: .*",
        ),
        ("{name: github}", r"service github: \d+ rules"),
    ],
)
def test_reports_the_options_of_a_service(entry: str, line: str) -> None:
    now, nothing = (
        Standing(root=Path("/p"), owner=None, stack_files=(), files=files)
        for files in ({POLICY: f"services: [claude, {entry}]\n"}, {})
    )
    (_, told) = reaches(now, nothing)
    assert re.fullmatch(line, told), told


@each("text", ["services: x", "[]", "services: [a", "services: [1]"])
def test_reaches_reports_an_invalid_policy(text: str) -> None:
    now, nothing = (
        Standing(root=Path("/p"), owner=None, stack_files=(), files=files) for files in ({POLICY: text}, {})
    )
    assert reaches(now, nothing)[0] == BROKEN.strip()


def test_lists_the_rules_of_a_service_in_the_project() -> None:
    mirror = "version: 1\ndomains: [{host: mirror.example.com, rules: [{methods: [GET]}]}]\n"
    policy = made_of("version: 1\nservices: [python]\n", python=mirror)
    assert widens(policy, NOTHING) == ("GET, HEAD mirror.example.com",)
    assert widens(policy, made_of("version: 1\nservices: [python]\n", python=mirror.replace("mirror", "old"))) != ()


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.yaml")))
def test_look_reads_all_files_of_each_example_policy(tmp_path: Path, example: str) -> None:
    folder = tmp_path / ".devcontainer"
    folder.mkdir()
    for path in (path for path in EXAMPLES.iterdir() if path.is_file()):
        shutil.copy(path, folder)
    (folder / f"{example}.yaml").rename(folder / "policy.yaml")
    (folder / "docker-compose.yml").touch()
    assert policy_of(look(tmp_path, {})).digest == load_policy(folder / "policy.yaml").digest


def test_reports_a_host_service_with_its_address_and_port() -> None:
    text = "version: 1\nhost_services: {ollama: {to: 'host:11434'}, lab: {to: 10.1.2.0/24, ports: [80]}}\n"
    assert set(widens(made_of(text), NOTHING)) >= {
        "the host service ollama on port 11434, which leads to host",
        "the host service 10.1.2.0/24 on port 80",
    }
    assert widens(made_of(text), made_of(text.replace("11434", "5433"))) == (
        "the host service ollama on port 11434, which leads to host",
        "any method ollama on port 11434",
    )
    assert widens(made_of("version: 1\nhost_services: {ollama: {to: 'host:11434'}}\n"), made_of(text)) == ()


def test_lists_settings_restrictions_host_services_and_services_before_hosts() -> None:
    many = ", ".join(f"h{number}.test" for number in range(100))
    before = made_of("version: 1\ntighten: true\ndomains: [a.test]\n")
    wide = made_of(
        f"domains: [{many}]\nservices: [rust]\nhost_services: {{o: {{to: 'host:1'}}}}\nsettings: {{inspect: false}}\n"
    )
    assert widens(wide, before)[:5] == (
        UNINSPECTED,
        "what layer project restricted",
        "the host service o on port 1, which leads to host",
        "service rust: 5 rules",
        "any method h0.test",
    )


UPSTREAM = "settings: {{upstream: {{proxy: 'http://proxy.corp.example:3128', ca: {}}}}}\n"


def test_reports_an_upstream_proxy_and_its_ca_when_added_changed_or_removed(
    tmp_path: Path,
) -> None:
    policies = []
    for name in "ab":
        (tmp_path / name).mkdir()
        pem = make_authority(tmp_path / name, ["a.test"]).read_text()
        files = {POLICY: BASE + UPSTREAM.format("corp.pem"), ".devcontainer/corp.pem": pem}
        policies.append(policy_of(Standing(root=Path("/p"), owner=None, stack_files=(), files=files)))
    first, second = policies
    through = "all allowed requests go through http://proxy.corp.example:3128; corp.pem (sha256 "
    (told,) = widens(first, made_of(BASE))
    assert told.startswith(f"the setting `upstream`: {through}")
    assert told.endswith(") can sign for every host; not set here before")
    (told,) = widens(second, first)
    assert told.count(through) == 2
    (told,) = widens(made_of(BASE), first)
    assert told.startswith("the setting `upstream`: no longer set here; before: all allowed requests go through")
    assert widens(first, first) == ()


@each(
    ("now", "before", "expected"),
    [
        ("services: [node]", None, (TO_RESOLVE.format("node", "npm"),)),
        ("services: [npm]", "domains: []", (TO_RESOLVE.format("node", "npm"),)),
        ("services: [npm]", "services: [node]", ()),
        ("services: [{name: pip}]", "services: [node]", (TO_RESOLVE.format("python", "pip"),)),
    ],
)
def test_reports_a_service_that_the_next_start_resolves(
    now: str, before: str | None, expected: tuple[str, ...]
) -> None:
    def standing(text: str | None) -> Standing:
        return Standing(root=Path("/p"), owner=None, stack_files=(), files={} if text is None else {POLICY: text})

    assert reaches(standing(now), standing(before)) == expected


def test_reports_a_removed_budget_of_the_sandbox() -> None:
    limited, free = made_of("settings: {budget: {requests: 1/min}}"), made_of("settings: {reload: restart}")
    assert widens(free, limited) == ("more than the budget of 1 requests per min",)
    assert widens(limited, free) == ()
    assert widens(made_of("\nsettings: {budget: {requests: 1/min}}"), limited) == ()
