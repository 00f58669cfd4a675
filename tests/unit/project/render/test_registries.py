import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.policy import compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.resolved import RESOLVED, require_reading
from agent_sandbox.project.render.reconcile import OnConflict, Verdict
from agent_sandbox.project.render.registries import render_registries, resolved_service

MIRROR = Offer(host="packages.example.org", files=("~/.config/pip/pip.conf", "uv.lock"), schemes=("https",))
ODD = Offer(host="npm.example.org", files=('a "b": {{x}} # c', "d"), schemes=("http",), ports=(8080,))
DATE = "2026-11-21"


def test_each_registry_is_an_entry_with_the_files_that_name_it() -> None:
    assert (
        render_registries("python", [MIRROR], date=DATE)
        == """\
version: 1
title: "Packages, from where pip and this project fetch them"
date: "2026-11-21"
reason: The registries that are configured, for reading. Publishing needs a rule in policy.yaml.
domains:
  - host: packages.example.org
    ports: [443]
    reason: "named by ~/.config/pip/pip.conf, uv.lock"
    risk: "fetched code runs in the sandbox; the registry sees the requested names"
    probe: GET https://packages.example.org/
    rules: [{methods: [GET], schemes: [https]}]
"""
    )


@pytest.mark.parametrize("name", RESOLVED)
def test_the_rendered_service_loads_and_allows_only_reading(name: str) -> None:
    text = render_registries(name, [MIRROR, ODD], date=DATE)
    layer = parse_layer(text, name=f"service {name}", file="f", shown="s", services=())
    rules = compile_policy([require_reading(layer, file="f")], {}).rules.rules
    assert [str(rule) for rule in rules] == [
        "GET, HEAD https://packages.example.org",
        "GET, HEAD http://npm.example.org on port 8080",
    ]
    assert [entry.reason for entry in layer.spec.domains] == [
        "named by ~/.config/pip/pip.conf, uv.lock",
        'named by a "b": {{x}} # c, d',
    ]
    assert layer.spec.domains[1].probe == "GET http://npm.example.org:8080/"
    assert {entry.encoded_slash for entry in layer.spec.domains} == {name == "node"}


def test_keeps_an_edited_service_file_and_updates_an_unedited_file() -> None:
    def change(before: str | None) -> Verdict:
        return resolved_service("node", [MIRROR], date=DATE, before=before, on_conflict=OnConflict.KEEP).verdict

    written = resolved_service("node", [MIRROR], date="2025-01-01", before=None, on_conflict=OnConflict.KEEP)
    assert "`agent-sandbox policy services resolve node` updates it" in written.after
    assert (written.path, written.verdict) == ("services/node.yaml", Verdict.WRITTEN)
    assert (change(written.after), change(f"{written.after}# mine\n")) == (Verdict.UPDATED, Verdict.KEPT)
