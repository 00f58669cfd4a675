import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policytools.importing.old_services import ONCE, UNKNOWN, Origin, Services, narrower, old_hosts
from agent_sandbox.policytools.importing.reading import read_old
from agent_sandbox.policytools.importing.records import BY_NAME, Imported, Record, conditions_of, left_out
from table_tests import each

KNOWN = {name: shipped_services()[name] for name in ("github", "vscode")}


def imported(text: str, *, problems: tuple[str, ...] = ()) -> Imported:
    found, services = Imported(), Services(known=KNOWN)
    old, records = read_old(text, file="f"), list[Record]()
    services.read(old, found, records)
    assert tuple(map(str, old.problems)) == problems
    if not problems:
        services.put_into(found, set(map(id, records)))
    return found


def notes(found: Imported) -> list[tuple[str, str]]:
    return [(note.where, note.what) for note in found.notes]


def test_keeps_the_name_of_a_shipped_service() -> None:
    found = imported("services:\n  - GitHub\n")
    assert (found.services, found.domains) == (["github"], [])
    hosts = "github.com, .github.com, githubusercontent.com, .githubusercontent.com"
    ours = "here it allows what `agent-sandbox policy services show github` lists"
    assert notes(found) == [("f:2", f"`github` allowed every request to {hosts}; {ours}")]


def test_replaces_a_service_that_is_not_shipped_by_its_hosts() -> None:
    found = imported("services: [factory, {name: pi}]")
    assert (found.services, found.domains, found.notes) == ([], ["api.factory.ai", "api.workos.com"], [])
    found = imported("services: [{name: factory, readonly: true}]")
    assert found.domains[0] == {"host": "api.factory.ai", "rules": [{"methods": ["GET", "HEAD"]}]}


def test_a_later_entry_can_replace_an_earlier_entry_of_the_same_name() -> None:
    found = imported("services: [vscode, github, {name: github, merge_mode: replace}]")
    assert found.services == ["vscode", {"name": "github", "merge_mode": "replace"}]


def test_imports_a_service_once_and_notes_a_different_second_entry() -> None:
    entry = "{name: vscode, readonly: true}"
    found = imported(f"services:\n- {entry}\n- {entry}\n- vscode\n")
    assert found.services == [{"name": "vscode", "readonly": True}]
    assert ("f:4", "left out: " + ONCE.format("vscode", "f:2")) in notes(found)
    assert "f:3" not in dict(notes(found))


def test_joins_entries_that_name_repositories_each_with_its_access() -> None:
    entry = "- {{name: github, readonly: {}, repos: [{}], surfaces: [git]}}\n"
    found = imported(f"services:\n{entry.format('true', 'a/b, A/c')}{entry.format('false', 'A/c, d/e')}")
    repos = [{"name": "a/b", "access": "read"}, "A/c", "d/e"]
    assert found.services == [{"name": "github", "repos": repos, "git": {"access": "readwrite"}}]
    assert not any(what.startswith("left out") for _, what in notes(found))
    same = imported(f"services:\n{entry.format('true', 'a/b')}{entry.format('true', 'd/e')}")
    assert same.services == [{"name": "github", "repos": ["a/b", "d/e"], "git": {"access": "read"}}]


def test_does_not_join_an_entry_with_another_secret_or_other_parts() -> None:
    one = "- {name: github, repos: [a/b], git: {access: read, auth: {secret: a}}}\n"
    for other in (one.replace("secret: a", "secret: b"), "- {name: github, repos: [d/e], api: {access: read}}\n"):
        found = imported(f"services:\n{one}{other}")
        assert [service["repos"] for service in found.services] == [["a/b"]]
        assert ("f:3", "left out: " + ONCE.format("github", "f:2")) in notes(found)


def test_leaves_out_a_service_with_invalid_options() -> None:
    found = imported("services: [{name: github, repos: [a/b], git: {access: read, auth: {secret: [x]}}}]")
    assert found.services == []
    assert ("f:1", "left out: `auth` needs a secret") in notes(found)


def test_imports_secret_names_with_a_note() -> None:
    auth = "{secret: token, client_shim: {kind: git-askpass}}"
    text = f"services:\n- name: github\n  repos: [a/b]\n  git:\n    access: readwrite\n    auth: {auth}\n"
    services, found = Services(known=KNOWN), Imported()
    services.read(read_old(text, file="f"), found, [])
    git = {"access": "readwrite", "auth": {"secret": "token", "client_shim": {"kind": "git-askpass"}}}
    assert dict(services.entries[0].value) == {"name": "github", "repos": ["a/b"], "git": git}
    assert notes(found) == [("f:6", BY_NAME)]


@pytest.mark.parametrize(("readonly", "access"), [("true", "read"), ("false", "readwrite")])
def test_converts_surfaces_to_git_and_api_access(readonly: str, access: str) -> None:
    services = Services(known=KNOWN)
    entry = f"{{name: github, readonly: {readonly}, repos: [a/b], surfaces: [api, git]}}"
    services.read(read_old(f"services: [{entry}]", file="f"), Imported(), [])
    expected = {"name": "github", "repos": ["a/b"], "api": {"access": access}, "git": {"access": access}}
    assert dict(services.entries[0].value) == expected


def test_leaves_out_a_service_with_an_unsupported_merge_mode() -> None:
    found = imported("services: [{name: github, merge_mode: other}]")
    assert found.services == []
    assert notes(found) == [("f:1", "left out: invalid value 'other'")]


def test_leaves_out_unknown_services_and_imports_the_others() -> None:
    found = imported("services: [nonesuch, vscode]")
    assert found.services == ["vscode"]
    what = UNKNOWN.format("'nonesuch'", ", ".join(sorted(old_hosts())))
    assert [note for note in found.notes if note.left_out] == [left_out("f:1", what)]


def test_rejects_a_service_with_an_unknown_key() -> None:
    problems = ("f:1: unknown key `x`; known: api, git, merge_mode, name, readonly, repos, surfaces",)
    imported("services: [nonesuch, {name: github, x: 1}]", problems=problems)


def test_rejects_a_service_whose_readonly_is_not_a_boolean() -> None:
    hint = "write `readonly: true`, or remove it"
    imported(
        'services: [{name: github, readonly: "yes"}]',
        problems=(f"f:1: `readonly` has to be `true` or `false`, not 'yes'; {hint}",),
    )


def is_below(host: str, wide: str) -> bool:
    return wide.startswith(".") and host != wide and f".{host.removeprefix('.')}".endswith(wide)


NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4)
hosts = st.lists(st.sampled_from(["", "."]).flatmap(lambda dot: NAMES.map(lambda labels: dot + ".".join(labels))))


@given(hosts)
def test_finds_the_same_narrower_hosts_as_a_pairwise_comparison(names: list[str]) -> None:
    found = narrower([Record(host=name, where="") for name in names])
    expected = {wide: {name for name in names if is_below(name, wide)} for wide in names}
    assert {wide: {*found.get(wide, {})} for wide in names} == expected


def record(host: str, *methods: str) -> Record:
    made = Record(host=host, where="")
    made.add({"methods": list(methods)} if methods else None, "", Imported())
    return made


RECORDS = (record(".a.test"), record("b.a.test", "GET", "HEAD"), record(".c.a.test", "POST"), record("d.test", "PUT"))


@each(
    ("host", "governing"),
    [
        ("b.a.test", ["b.a.test"]),
        ("a.test", [".a.test"]),
        ("x.a.test", [".a.test"]),
        ("c.a.test", [".c.a.test"]),
        ("x.c.a.test", [".c.a.test"]),
        ("*.c.a.test", [".c.a.test"]),
        (".b.a.test", [".a.test"]),
        ("*.a.test", [".a.test"]),
        ("*.test", []),
        ("e.test", []),
    ],
)
def test_the_most_specific_matching_host_governs(host: str, governing: list[str]) -> None:
    assert [one.host for one in Origin(RECORDS).governing(parse_host_pattern(host))] == governing


@each(
    ("entry", "refused"),
    [
        ({"host": "b.a.test", "rules": [{"methods": ["GET"]}]}, False),
        ({"host": "b.a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "x.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": ".b.a.test", "rules": [{"methods": ["GET"]}]}, False),
        ({"host": ".b.a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "*.b.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": ".a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "*.c.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": "e.test", "rules": [{"methods": ["POST"]}]}, True),
    ],
)
def test_refuses_rules_that_the_old_policy_could_have_denied(entry: object, refused: bool) -> None:  # noqa: FBT001 - a case
    (asked,) = conditions_of([entry])
    assert Origin(RECORDS).refuses(asked) is refused


def test_names_the_narrower_host_that_a_wildcard_would_widen() -> None:
    (asked,) = conditions_of([".a.test"])
    assert Origin(RECORDS).refused_below(asked) == "b.a.test"
