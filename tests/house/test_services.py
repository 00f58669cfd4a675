"""Every service allows its sample requests, denies data sinks, and names its reasons, risks and date."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from agent_sandbox.policy import Layer, Policy, PolicySpec, compile_policy, decide, parse_request
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.file.entry_spec import DomainSpec
from agent_sandbox.policy.file.service_options import Access, Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policyfile.package_managers import aliases
from agent_sandbox.policyfile.parse.aliases import also_called
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

CASES = yaml.safe_load((Path(__file__).parent / "services.yaml").read_text("utf-8"))
# Read once: a catalogue reads a service's file at each access.
SERVICES = dict(shipped_services())
TABLE = (
    (Path(__file__).resolve().parents[2] / "docs" / "policy" / "services.md")
    .read_text("utf-8")
    .partition("<!-- table -->")[2]
)
PUBLISHING = sorted(name for name in SERVICES if name.endswith("-publish"))
# Archives whose clients check signatures, and use plain HTTP by default.
SIGNED = {"alpine", "ubuntu"}
# Forges and registries that are for reading. The requests in QUESTIONS use POST.
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
    """Return the policy of a service with all options at their highest level."""
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


def test_services_of_the_same_host_can_use_the_same_key() -> None:
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
def test_a_service_allows_the_sample_request_of_each_entry(service: str) -> None:
    whole = whole_of(service)
    assert [entry.probe for entry in entries(service) if answer(service, entry.probe, whole) != "allow"] == []
    asked = [urlsplit(entry.probe.partition(" ")[2]).hostname or "" for entry in entries(service)]
    beside = [host for host, entry in zip(asked, entries(service), strict=True) if not entry.host.matches(host)]
    assert beside == []


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_service_denies_subdomains_of_its_exact_hosts(service: str, method: str) -> None:
    exact = {entry.host.name for entry in entries(service) if not entry.host.reach}
    assert [host for host in exact if answer(service, f"{method} https://evil.{host}/") != "deny"] == []


def test_only_four_known_entries_of_services_are_wildcards() -> None:
    wide = {(service, str(entry.host)) for service in SERVICES for entry in entries(service) if entry.host.reach}
    assert wide == {
        ("cursor", "*.api5.cursor.sh"),
        ("vscode", "*.gallery.vsassets.io"),
        ("vscode", "*.gallerycdn.vsassets.io"),
        ("vscode", "*.vscode-unpkg.net"),
    }


@pytest.mark.parametrize("service", CASES)
def test_a_service_decides_as_its_cases_in_services_yaml_say(service: str) -> None:
    lines = [(effect, line) for effect, lines in CASES[service].items() for line in lines]
    assert [(answer(service, line), line) for _, line in lines] == lines


# Requests that stay denied with all options, for services with options that allow writing.
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
def test_a_service_denies_sensitive_writes_even_with_all_options(service: str) -> None:
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


def test_graphql_allows_queries_and_with_write_access_comments() -> None:
    for document in (ISSUES, FEATURES):
        assert [by_graphql(document), by_graphql(document, readonly=True), by_graphql(document, **WRITES)] == [
            "allow"
        ] * 3
    assert [by_graphql(COMMENT), by_graphql(COMMENT, **WRITES)] == ["deny", "allow"]
    assert by_graphql(COMMENT, readonly=True, **WRITES) == "deny"


NAMED = 'query { repository(owner: "o", name: "n") { issues { nodes { title } } } }'


def test_graphql_allows_only_queries_of_the_listed_repositories() -> None:
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


def test_graphql_denies_other_operations_even_with_write_access() -> None:
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


def test_write_access_to_github_allows_writing_issues_and_pull_requests() -> None:
    said = [
        *("POST issues", "PATCH issues/1", "POST issues/1/comments", "PATCH issues/comments/1", "POST issues/1/labels"),
        *("POST pulls", "PATCH pulls/1", "POST pulls/1/comments", "POST pulls/1/comments/2/replies"),
        *("PATCH pulls/comments/1", "POST pulls/1/reviews", "POST pulls/1/requested_reviewers"),
    ]
    lines = [line.replace(" ", " https://api.github.com/repos/owner/name/") for line in said]
    assert [line for line in lines if answer("github", line, whole_of("github")) != "allow"] == []


@pytest.mark.parametrize("service", ["anthropic", "claude", "codex", "copilot", "gemini", "openai", "openrouter"])
def test_the_risk_of_a_model_service_names_the_servers_that_it_can_contact(service: str) -> None:
    assert any("any server that a request makes" in entry.risk for entry in entries(service))


def test_every_service_has_a_case_that_must_be_denied() -> None:
    assert [name for name in SERVICES if not CASES.get(name, {}).get("deny")] == []
    assert set(CASES) == set(SERVICES)


@pytest.mark.parametrize("publishing", PUBLISHING)
def test_a_registry_denies_the_requests_of_its_publish_service(publishing: str) -> None:
    reading = publishing.removesuffix("-publish")
    sinks = [entry.probe for entry in entries(publishing)]
    assert [line for line in sinks if answer(reading, line) != "deny"] == []


@pytest.mark.parametrize("service", [name for name in SERVICES if name.endswith("-telemetry")])
def test_a_service_denies_the_requests_of_its_telemetry_service(service: str) -> None:
    reports = [entry.probe for entry in entries(service) if "resources.jetbrains.com" not in entry.probe]
    assert [line for line in reports if answer(service.removesuffix("-telemetry"), line) != "deny"] == []


@pytest.mark.parametrize("service", READING)
def test_registries_and_forges_allow_other_methods_only_on_known_paths(service: str) -> None:
    others = [rule for rule in policy_of(service).rules.rules if rule.conditions.methods != frozenset({"GET", "HEAD"})]
    assert {str(rule.conditions.path) for rule in others} == QUESTIONS.get(service, set())


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_reasons_risks_sample_requests_and_a_date(service: str) -> None:
    spec, rules = SERVICES[service].spec, policy_of(service).rules.rules
    assert all((spec.title, spec.reason, re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", spec.date)))
    assert [str(entry.host) for entry in entries(service) if not (entry.risk and entry.probe and entry.ports)] == []
    assert [str(rule.origin) for rule in rules if not rule.reason] == []
    assert (spec.allow, spec.deny, spec.services) == ((), (), ())


def test_aliases_of_services_are_unique_and_not_names_of_services() -> None:
    words = [word for layer in SERVICES.values() for word in also_called(layer)]
    words += [word for also in aliases().values() for word in also]
    assert sorted({*words} & {*SERVICES, *aliases()}) == []
    assert sorted({word for word in words if words.count(word) > 1 or word != word.casefold()}) == []


def test_the_document_lists_each_service() -> None:
    listed = {
        name for line in TABLE.partition("<!-- end -->")[0].splitlines() for name in re.findall(r"`([a-z-]+)`", line)
    }
    assert listed == {*SERVICES, "python", "node", "debian"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_names_its_methods_and_uses_https_unless_its_packages_are_signed(service: str) -> None:
    schemes = frozenset({"https"} | ({"http"} if service in SIGNED else set()))
    rules = [rule for entry in entries(service) for rule in entry.rules]
    assert [rule for rule in rules if set(rule.schemes) != schemes or not rule.methods] == []
    assert {port for entry in entries(service) for port in entry.ports} <= ({80, 443} if service in SIGNED else {443})
