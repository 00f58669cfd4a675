from typing import Any

import pytest
import yaml

from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.importing.old_policy import import_policies
from agent_sandbox.policytools.importing.records import Imported, Note, left_out
from agent_sandbox.policytools.importing.restricting import DENIED, WIDER

SERVICES = dict(shipped_services())
MODELS = [{"methods": ["GET"], "path": {"prefix": "/v1/models"}}]


def imported(text: str) -> Imported:
    return import_policies([("f", text)], known=SERVICES)


def written(found: Imported, section: str) -> Any:  # noqa: ANN401 - whatever stands there
    return yaml.safe_load(found.text()).get(section)


def test_keeps_merge_mode_replace_for_a_wildcard_over_hosts_of_a_service() -> None:
    rule = "{methods: [GET], path: {prefix: /v1/models}}"
    found = imported(
        f"services: [codex]\ndomains: [{{host: '*.openai.com', merge_mode: replace, rules: [{rule}]}}]",
    )
    assert written(found, "domains") == [{"host": ".openai.com", "merge_mode": "replace", "rules": MODELS}]
    assert written(found, "deny") is None


def test_splits_a_replacing_wildcard_that_would_replace_too_much() -> None:
    # The old policy kept the service's own hosts; here the wildcard would replace them.
    found = imported(
        'services: [gemini]\ndomains: [{host: "*.googleapis.com", merge_mode: replace, rules: [{methods: [PUT]}]}]'
    )
    rules = [{"methods": ["PUT"]}]
    assert written(found, "domains") == [
        {"host": "www.googleapis.com", "merge_mode": "replace", "rules": rules},
        {"host": ".googleapis.com", "rules": rules},
    ]


def test_denies_hosts_that_the_shipped_service_would_newly_allow() -> None:
    found = imported("services: [vscode]")
    hosts = ["*.vscode-unpkg.net", "vscode.download.prss.microsoft.com"]
    assert written(found, "deny") == hosts
    assert [note for note in found.notes if note.what.startswith("`vscode` would newly allow")] == [
        Note(where="f:1", what=DENIED.format("vscode", host)) for host in hosts
    ]


def test_denies_post_for_a_service_that_was_readonly() -> None:
    found = imported("services: [{name: github, readonly: true}]")
    posts = [{"methods": ["POST"]}]
    hosts = ("api.github.com", "github.com")
    assert written(found, "deny") == [{"host": host, "rules": posts} for host in hosts]


def test_leaves_out_a_service_whose_wildcard_would_allow_more_than_before() -> None:
    found = imported("services: [vscode]\ndomains: [{host: a.gallery.vsassets.io, rules: [{methods: [PUT]}]}]")
    assert written(found, "services") is None
    assert left_out("f:1", WIDER.format("vscode", "*.gallery.vsassets.io")) in found.notes


def test_denies_a_host_of_a_service_whose_only_rule_is_unsupported() -> None:
    text = "services: [codex]\ndomains: [{host: chatgpt.com, merge_mode: replace, rules: [{path: {exact: /..}}]}]"
    assert written(imported(text), "deny") == ["chatgpt.com"]


def test_leaves_out_a_service_named_both_with_and_without_repositories() -> None:
    # In the old policy, only the repositories counted at their hosts.
    found = imported("services: [github, {name: github, repos: [o/r], git: {access: read}, api: {access: read}}]")
    assert written(found, "services") is None
    assert left_out("f:1", WIDER.format("github", "api.github.com")) in found.notes


@pytest.mark.parametrize(("host", "there"), [("*.api.anthropic.com", ".api.anthropic.com"), ("api.anthropic.com", "")])
def test_only_the_first_of_several_entries_for_a_host_replaces(host: str, there: str) -> None:
    entries = "".join(f"  - {{host: '{host}', rules: [{{methods: [{method}]}}]}}\n" for method in ("GET", "PUT"))
    found = imported(f"services: [claude]\ndomains:\n{entries}")
    get, put = [{"methods": ["GET"]}], [{"methods": ["PUT"]}]
    beside = [{"host": there, "rules": rules} for rules in (get, put)] if there else []
    assert written(found, "domains") == [
        {"host": "api.anthropic.com", "merge_mode": "replace", "rules": get},
        {"host": "api.anthropic.com", "rules": put},
        *beside,
    ]
    # A policy with two replacing entries for a host does not load.
    parse_layer(found.text(), name="project", file="p", shown="p", services=SERVICES)
