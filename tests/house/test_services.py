"""Every service is what it says: each entry is probed, sinks beside it stay shut, and each names why, risk and date."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml

from agent_sandbox.policy import Layer, Policy, PolicySpec, compile_policy, decide, parse_request
from agent_sandbox.policy.file.service_options import Access, Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.parse.aliases import also_called
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

if TYPE_CHECKING:
    from agent_sandbox.policy.decision import Effect
    from agent_sandbox.policy.file.entry_spec import DomainSpec

CASES = yaml.safe_load((Path(__file__).parent / "services.yaml").read_text("utf-8"))
# Read once: a catalogue reads a service whenever it is asked for one.
SERVICES = dict(shipped_services())
TABLE = (
    (Path(__file__).resolve().parents[2] / "docs" / "policy" / "services.md")
    .read_text("utf-8")
    .partition("<!-- table -->")[2]
)
PUBLISHING = sorted(name for name in SERVICES if name.endswith("-publish"))
# Archives whose clients check a signature, and ask over plain HTTP as they are set up.
SIGNED = {"alpine", "ubuntu"}
# Forges and registries are for reading; these questions are asked by POST.
READING = [
    "alpine",
    "bitbucket",
    "codeberg",
    "deno",
    "docker-hub",
    "dotnet",
    "elixir",
    "ghcr",
    "gitlab",
    "go",
    "java",
    "php",
    "playwright",
    "quay",
    "ruby",
    "rust",
    "terraform",
    "ubuntu",
]
QUESTIONS = {
    "bitbucket": {"/*/*/git-upload-pack", "/*/*/info/lfs/objects/batch"},
    "codeberg": {"/*/*/git-upload-pack", "/*/*/info/lfs/objects/batch"},
    "gitlab": {"/**/git-upload-pack", "/**/info/lfs/objects/batch"},
    "php": {"/api/security-advisories/"},
}


@cache
def policy_of(service: str) -> Policy:
    return compile_policy([SERVICES[service]], SERVICES)


def entries(service: str) -> tuple[DomainSpec, ...]:
    return SERVICES[service].spec.domains


def whole_of(service: str) -> Policy:
    """All that can be chosen of a service."""
    declared = SERVICES[service].spec.declared
    most = {name: {"access": kind.levels[-1]} for name, kind in declared.items() if isinstance(kind, Access)}
    spec = PolicySpec.model_validate({"services": [{"name": service, **most}]})
    return compile_policy([Layer(name="project", file="policy.yaml", spec=spec, lines={})], SERVICES)


def answer(service: str, line: str, policy: Policy | None = None) -> Effect:
    policy = policy or policy_of(service)
    method, _, url = line.partition(" ")
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    request = parse_request(
        scheme=parts.scheme,
        host=host,
        port=port,
        method=method,
        target=url.partition(parts.netloc)[2],
        encoded_slash=policy.takes_encoded_slash(host),
    )
    return decide(policy, request).effect


def test_services_of_one_host_share_its_key() -> None:
    by_host = defaultdict[str, list[str]](list)
    for name, layer in SERVICES.items():
        for option, kind in layer.spec.declared.items():
            if isinstance(kind, Auth) and option == "secret":
                by_host[kind.host].append(name)
    for names in by_host.values():
        spec = PolicySpec.model_validate({"services": [{"name": name, "secret": "the.key"} for name in names]})
        layer = Layer(name="project", file="policy.yaml", spec=spec, lines={})
        compile_policy([layer], SERVICES)
    assert max(map(len, by_host.values())) > 1


@pytest.mark.parametrize("service", SERVICES)
def test_each_entry_of_a_service_lets_its_probe_through_by_itself(service: str) -> None:
    whole = whole_of(service)
    assert [entry.probe for entry in entries(service) if answer(service, entry.probe, whole) != "allow"] == []
    asked = [urlsplit(entry.probe.partition(" ")[2]).hostname or "" for entry in entries(service)]
    beside = [host for host, entry in zip(asked, entries(service), strict=True) if not entry.host.matches(host)]
    assert beside == []


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_below_the_hosts_of_a_service_nobody_is_let_in(service: str, method: str) -> None:
    exact = {entry.host.name for entry in entries(service) if not entry.host.reach}
    assert [host for host in exact if answer(service, f"{method} https://evil.{host}/") != "deny"] == []


def test_a_wildcard_stands_where_every_name_below_is_the_provider_s_own() -> None:
    wide = {(service, str(entry.host)) for service in SERVICES for entry in entries(service) if entry.host.reach}
    assert wide == {
        ("cursor", "*.api5.cursor.sh"),
        ("vscode", "*.gallery.vsassets.io"),
        ("vscode", "*.gallerycdn.vsassets.io"),
        ("vscode", "*.vscode-unpkg.net"),
    }


@pytest.mark.parametrize("service", CASES)
def test_a_service_lets_through_what_it_is_for_and_no_sink_beside(service: str) -> None:
    lines = [(effect, line) for effect, lines in CASES[service].items() for line in lines]
    assert [(answer(service, line), line) for _, line in lines] == lines


# Where an option lets something be written, what stays shut whatever is chosen.
NEVER = {
    "bitbucket": [
        "POST https://api.bitbucket.org/2.0/snippets",
        "POST https://api.bitbucket.org/2.0/repositories/workspace/name",
        "POST https://api.bitbucket.org/2.0/repositories/workspace/name/downloads",
        "POST https://api.bitbucket.org/2.0/repositories/workspace/name/forks",
        "POST https://api.bitbucket.org/2.0/repositories/workspace/name/hooks",
        "POST https://api.bitbucket.org/2.0/repositories/workspace/name/pullrequests/1/merge",
        "PUT https://bbuseruploads.s3.amazonaws.com/x",
    ],
    "codeberg": [
        "POST https://codeberg.org/api/v1/repos/owner/name/hooks",
        "POST https://codeberg.org/api/v1/user/repos",
        "POST https://codeberg.org/owner/name/issues",
        "PUT https://codeberg.org/owner/name.git/info/lfs/objects/x/1",
    ],
    "gitlab": [
        "POST https://gitlab.com/api/v4/snippets",
        "POST https://gitlab.com/api/v4/projects/1/hooks",
        "POST https://gitlab.com/api/graphql",
        "POST https://gitlab.com/group/name/-/snippets",
        "PUT https://gitlab.com/group/name.git/gitlab-lfs/objects/a/1",
    ],
    "github": [
        "POST https://api.github.com/gists",
        "POST https://gist.github.com/",
        "POST https://api.github.com/graphql",
        "POST https://api.github.com/user/repos",
        "POST https://api.github.com/repos/owner/name/forks",
        "POST https://api.github.com/repos/owner/name/hooks",
        "POST https://api.github.com/repos/owner/name/keys",
        "PUT https://api.github.com/repos/owner/name/collaborators/other",
        "PUT https://api.github.com/repos/owner/name/pulls/1/merge",
        "POST https://api.github.com/repos/owner/name/pulls/1/codespaces",
        "POST https://api.github.com/repos/owner/name/pulls/1/update-branch",
        "PUT https://api.github.com/repos/owner/name/pulls/1/update-branch",
        "POST https://uploads.github.com/repos/owner/name/releases/1/assets",
    ],
}


@pytest.mark.parametrize(
    "service",
    [name for name in SERVICES if not all(isinstance(kind, Auth) for kind in SERVICES[name].spec.declared.values())],
)
def test_no_option_opens_a_place_for_others_to_read(service: str) -> None:
    assert [line for line in NEVER[service] if answer(service, line, whole_of(service)) != "deny"] == []


def by_graphql(document: str, **options: object) -> str:
    spec = PolicySpec.model_validate({"services": [{"name": "github", **options}]})
    policy = compile_policy([Layer(name="project", file="policy.yaml", spec=spec, lines={})], SERVICES)
    line = RequestLine(method="POST", url="https://api.github.com/graphql", graphql=document)
    return str(decide(policy, read_request(policy, line)).effect)


ISSUES = "query Issues($owner: String!) { repository(owner: $owner) { issues { nodes { title } } } rateLimit { cost } }"
FEATURES = 'query PullRequest_fields { PullRequest: __type(name: "PullRequest") { fields { name } } }'
COMMENT = "mutation CommentCreate($input: AddCommentInput!) { addComment(input: $input) { clientMutationId } }"
WRITES = {"api": {"access": "readwrite"}}


def test_graphql_reads_and_with_writing_chosen_writes_issues_and_pull_requests() -> None:
    for document in (ISSUES, FEATURES):
        assert [by_graphql(document), by_graphql(document, readonly=True), by_graphql(document, **WRITES)] == [
            "allow"
        ] * 3
    assert [by_graphql(COMMENT), by_graphql(COMMENT, **WRITES)] == ["deny", "allow"]
    assert by_graphql(COMMENT, readonly=True, **WRITES) == "deny"


NAMED = 'query { repository(owner: "o", name: "n") { issues { nodes { title } } } }'


def test_graphql_reads_only_the_repositories_that_are_named() -> None:
    for document, repositories, expected in (
        (NAMED, ["o/n"], "allow"),
        (NAMED, ["o/*"], "allow"),
        (FEATURES, ["o/n"], "allow"),
        (NAMED, ["o/other"], "deny"),
        (ISSUES, ["o/n"], "deny"),
        (COMMENT, ["o/n"], "deny"),
    ):
        assert by_graphql(document, repos=repositories, **WRITES) == expected
    assert by_graphql(NAMED, repos=["o/n"], readonly=True) == "allow"


def test_no_option_opens_the_rest_of_graphql() -> None:
    rest = [
        *(
            "createRepository",
            "mergePullRequest",
            "createCommitOnBranch",
            "createRef",
            "updateRepository",
            "deleteIssue",
        ),
        *("transferIssue", "addStar", "createDiscussion", "createGist", "enablePullRequestAutoMerge", "deleteRef"),
    ]
    documents = ["{ relay { viewer { id } } }", *(f"mutation {{ {name} {{ id }} }}" for name in rest)]
    assert [one for one in documents if by_graphql(one, **WRITES) != "deny"] == []


def test_what_is_said_of_issues_and_pull_requests_is_what_writing_is_for() -> None:
    said = [
        *("POST issues", "PATCH issues/1", "POST issues/1/comments", "PATCH issues/comments/1", "POST issues/1/labels"),
        *("POST pulls", "PATCH pulls/1", "POST pulls/1/comments", "POST pulls/1/comments/2/replies"),
        *("PATCH pulls/comments/1", "POST pulls/1/reviews", "POST pulls/1/requested_reviewers"),
    ]
    lines = [line.replace(" ", " https://api.github.com/repos/owner/name/") for line in said]
    assert [line for line in lines if answer("github", line, whole_of("github")) != "allow"] == []


@pytest.mark.parametrize("service", ["anthropic", "claude", "codex", "copilot", "gemini", "openai", "openrouter"])
def test_the_risk_of_a_model_names_servers_that_it_may_contact(service: str) -> None:
    assert any("any server that a request makes" in entry.risk for entry in entries(service))


def test_for_every_service_something_is_tried_that_stays_shut() -> None:
    assert [name for name in SERVICES if not CASES.get(name, {}).get("deny")] == []
    assert set(CASES) == set(SERVICES)


@pytest.mark.parametrize("publishing", PUBLISHING)
def test_what_publishes_is_denied_where_packages_are_read(publishing: str) -> None:
    reading = publishing.removesuffix("-publish")
    sinks = [entry.probe for entry in entries(publishing)]
    assert [line for line in sinks if answer(reading, line) != "deny"] == []


@pytest.mark.parametrize("service", [name for name in SERVICES if name.endswith("-telemetry")])
def test_telemetry_is_denied_where_its_tool_is_allowed(service: str) -> None:
    reports = [entry.probe for entry in entries(service) if "resources.jetbrains.com" not in entry.probe]
    assert [line for line in reports if answer(service.removesuffix("-telemetry"), line) != "deny"] == []


@pytest.mark.parametrize("service", READING)
def test_a_registry_is_for_reading(service: str) -> None:
    others = [rule for rule in policy_of(service).rules.rules if rule.conditions.methods != frozenset({"GET", "HEAD"})]
    assert {str(rule.conditions.path) for rule in others} == QUESTIONS.get(service, set())


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_says_why_each_rule_is_there_what_is_risked_and_when_somebody_looked(service: str) -> None:
    spec, rules = SERVICES[service].spec, policy_of(service).rules.rules
    assert all((spec.title, spec.reason, re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", spec.date)))
    assert [str(entry.host) for entry in entries(service) if not (entry.risk and entry.probe and entry.ports)] == []
    assert [str(rule.origin) for rule in rules if not rule.reason] == []
    assert (spec.allow, spec.deny, spec.services) == ((), (), ())


def test_what_people_call_a_service_leads_to_one_and_is_no_name_of_another() -> None:
    words = [word for layer in SERVICES.values() for word in also_called(layer)]
    words += [word for also in aliases().values() for word in also]
    assert sorted({*words} & {*SERVICES, *aliases()}) == []
    assert sorted({word for word in words if words.count(word) > 1 or word != word.casefold()}) == []


def test_the_document_holds_each_service_in_its_own_words() -> None:
    said = [f"| `{name}` | {layer.spec.title} | {layer.spec.reason} |" for name, layer in SERVICES.items()]
    assert sorted(said) == sorted(row for row in TABLE.splitlines() if row.startswith("| `"))


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_goes_over_tls_and_by_named_methods_alone(service: str) -> None:
    schemes = frozenset({"https"} | ({"http"} if service in SIGNED else set()))
    rules = [rule for entry in entries(service) for rule in entry.rules]
    assert [rule for rule in rules if set(rule.schemes) != schemes or not rule.methods] == []
    assert {port for entry in entries(service) for port in entry.ports} <= ({80, 443} if service in SIGNED else {443})
