import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.compiler import codec
from agent_sandbox.policy.compiler.codec import NotEncodableError
from agent_sandbox.policyfile import cached, layer_beside, load_policy, loading, named_services, services_beside
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.cached import load_cached, load_named, load_offers, require_valid
from agent_sandbox.policyfile.parse import parsing
from agent_sandbox.problems import UserError

type Parsed = Callable[[], int]


@pytest.fixture
def cache_dir(tmp_path: Path) -> CacheDir:
    return CacheDir(folder=tmp_path / "shelf")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "policy.yaml"
    path.parent.mkdir()
    path.write_text("services: [claude]\ndomains: [a.test]\nsettings: {block_status: 418}")
    return path


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """Count how often a policy file is parsed."""
    calls: list[str] = []

    def counted(text: str, **named: Any) -> Any:  # noqa: ANN401 - as the parser's
        calls.append(text)
        return parse(text, **named)

    parse = parsing.parse_layer
    monkeypatch.setattr(loading, "parse_layer", counted)
    return lambda: len(calls)


def test_parses_a_policy_once_and_then_loads_an_equal_policy_from_the_cache(
    project: Path, cache_dir: CacheDir, parsed: Parsed
) -> None:
    first, second = (load_cached(project, cache_dir=cache_dir) for _ in range(2))
    assert (first, parsed()) == (second, 1)
    assert first == load_policy(project)


def test_a_policy_is_checked_once_until_it_changes(
    project: Path, cache_dir: CacheDir, parsed: Parsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_valid(project, cache_dir=cache_dir)
    monkeypatch.setattr("agent_sandbox.policy.compiler.codec.decode_policy", None)
    require_valid(project, cache_dir=cache_dir)
    assert parsed() == 1
    project.write_text("domains: [1]")
    with pytest.raises(UserError):
        require_valid(project, cache_dir=cache_dir)


def test_parses_a_policy_each_time_without_a_cache(project: Path, parsed: Parsed) -> None:
    assert load_cached(project, cache_dir=None) == load_cached(project, cache_dir=None)
    assert parsed() == 2


def test_reloads_the_policy_when_any_of_its_files_changes(project: Path, cache_dir: CacheDir) -> None:
    organisation = layer_beside("organisation", project.with_name("organisation.yaml"))
    node, hosts = project.parent / "services" / "node.yaml", project.with_name("hosts.txt")
    node.parent.mkdir()

    def same() -> Policy:
        got = load_cached(project, layers=[organisation], cache_dir=cache_dir)
        assert got == load_cached(project, layers=[organisation], cache_dir=cache_dir)
        assert got == load_policy(project, layers=[organisation])
        return got

    before = [same()]
    for file, text in (
        (project, "domains: [a.test]"),
        (organisation.path, "allow: [GET https://a.test/x]"),
        (organisation.path, "allow: [GET https://a.test/y]"),
        (node, "domains: [{host: n.test, rules: [{methods: [GET]}]}]"),
        (project, "services: [node]\ndomains: [a.test]"),
        (node, "domains: [{host: m.test, rules: [{methods: [GET]}]}]"),
        (hosts, "l.test\n*.l.test"),
        (project, "services: [node]\ndomains_file: hosts.txt"),
        (hosts, "m.test"),
    ):
        file.write_text(text)
        before.append(same())
    organisation.path.unlink()
    before.append(same())
    digests = [policy.digest for policy in before]
    # A service file and a host list change nothing until the policy names them.
    assert [number for number, digest in enumerate(digests) if digest in digests[:number]] == [4, 7]


def test_the_resolved_services_that_a_file_names_are_cached_too(
    project: Path, cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text("services: [npm, pip]")
    names = [load_named(project, cache_dir=cache_dir)]
    with monkeypatch.context() as patch:
        patch.setattr(named_services, "named_in", pytest.fail)
        names.append(load_named(project, cache_dir=cache_dir))
    project.write_text("services: [apt]")
    names.append(load_named(project, cache_dir=cache_dir))
    assert names == [{"node", "python"}, {"node", "python"}, {"debian"}]


def test_rejects_a_services_folder_that_becomes_a_link_after_caching(project: Path, cache_dir: CacheDir) -> None:
    project.write_text("services: [node]")
    folder = project.with_name("services")
    folder.mkdir()
    (folder / "node.yaml").write_text("domains: [{host: n.test, rules: [{methods: [GET]}]}]")
    load_cached(project, cache_dir=cache_dir)
    folder.rename(project.with_name("elsewhere"))
    folder.symlink_to(project.with_name("elsewhere"))
    with pytest.raises(UserError, match=": symbolic link"):
        load_cached(project, cache_dir=cache_dir)


def test_applies_a_layer_that_was_missing_when_the_policy_was_cached(
    project: Path, cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    organisation = layer_beside("organisation", project.with_name("organisation.yaml"))
    organisation.path.write_text("deny: [a.test]")

    def too_late(path: Path, **named: Any) -> Policy:  # noqa: ANN401 - as the loader's
        organisation.path.unlink()
        return load(path, **named)

    load = loading.load_policy
    monkeypatch.setattr(loading, "load_policy", too_late)
    load_cached(project, layers=[organisation], cache_dir=cache_dir)
    monkeypatch.undo()
    organisation.path.write_text("deny: [a.test]")
    assert load_cached(project, layers=[organisation], cache_dir=cache_dir) == load_policy(
        project, layers=[organisation]
    )


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", '{"sources": []}', '{"sources": [{}], "form": {}}', '{"sources": 1}', "\xff"]
)
def test_treats_an_invalid_cache_entry_as_absent(project: Path, cache_dir: CacheDir, content: str) -> None:
    expected = load_cached(project, cache_dir=cache_dir)
    (name,) = (path.name for path in cache_dir.folder.iterdir())
    cache_dir.put(name, content.encode())
    assert load_cached(project, cache_dir=cache_dir) == expected
    said = json.loads(cache_dir.get(name) or b"")
    cache_dir.put(name, json.dumps({**said, "form": {}}).encode())
    assert load_cached(project, cache_dir=cache_dir) == expected


def test_does_not_cache_a_policy_that_cannot_be_encoded(
    project: Path, cache_dir: CacheDir, parsed: Parsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def formless(_: Policy) -> None:
        raise NotEncodableError

    monkeypatch.setattr(codec, "encode_policy", formless)
    assert load_cached(project, cache_dir=cache_dir) == load_cached(project, cache_dir=cache_dir)
    assert (parsed(), cache_dir.folder.exists()) == (2, False)


@pytest.mark.parametrize("part", ["_program", "data_root"])
def test_each_version_of_the_program_and_its_data_has_its_own_cache_entry(
    project: Path, cache_dir: CacheDir, parsed: Parsed, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    load_cached(project, cache_dir=cache_dir)
    monkeypatch.setattr(cached, part, lambda: "other")
    load_cached(project, cache_dir=cache_dir)
    assert (parsed(), len(list(cache_dir.folder.iterdir()))) == (2, 2)


def test_fingerprint_covers_every_source_file_and_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, policyfile, site = (tmp_path / name for name in ("policy", "policyfile", "site"))
    for folder in (policy / "room" / "inner", policyfile, site / "idna-1.dist-info"):
        folder.mkdir(parents=True)
    (policyfile / "x.yaml").write_text("")
    monkeypatch.setattr(cached, "PACKAGE", tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "nowhere"), str(site)])
    fingerprint = cached._program.__wrapped__
    seen = [fingerprint()]
    for path in (policy / "x.py", policy / "room" / "x.py", policy / "room" / "inner" / "x.py", policyfile / "x.yaml"):
        path.write_text("changed")
        seen.append(fingerprint())
    (policy / "room" / "x.py").rename(policyfile / "x.py")
    seen.append(fingerprint())
    (site / "idna-1.dist-info").rename(site / "idna-2.dist-info")
    seen.append(fingerprint())
    assert len(set(seen)) == len(seen)


def test_fingerprint_ignores_compiled_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy" / "__pycache__").mkdir(parents=True)
    (tmp_path / "policyfile").mkdir()
    monkeypatch.setattr(cached, "PACKAGE", tmp_path)
    before = cached._program.__wrapped__()
    (tmp_path / "policy" / "__pycache__" / "x.py").write_text("")
    (tmp_path / "policy" / "x.pyc").write_text("")
    assert cached._program.__wrapped__() == before


def test_the_hash_depends_on_where_the_parts_are_split() -> None:
    cuts = [["ab", "c"], ["a", "bc"], ["abc"], ["1:a"], ["", "abc"], ["a", "b", "c"]]
    assert len({cached._hashed(cut) for cut in cuts}) == len(cuts)


def test_reports_problems_on_each_load_and_does_not_cache_the_file(project: Path, cache_dir: CacheDir) -> None:
    project.write_text("domain: [a.test]")
    for _ in range(2):
        with pytest.raises(UserError, match="unknown key 'domain'"):
            load_cached(project, cache_dir=cache_dir)
    assert not cache_dir.folder.exists()


def test_caches_the_offers_of_services_until_a_service_file_is_added(project: Path, cache_dir: CacheDir) -> None:
    first, second = (load_offers(project, cache_dir=cache_dir) for _ in range(2))
    assert first == second
    assert set(first) == set(services_beside(project))
    assert len(list(cache_dir.folder.iterdir())) == 1
    (project.parent / "services").mkdir()
    (project.parent / "services" / "node.yaml").write_text("domains: [{host: n.test, rules: [{methods: [GET]}]}]")
    assert set(load_offers(project, cache_dir=cache_dir)) == {*first, "node"}
