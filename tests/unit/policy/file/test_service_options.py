import pickle
from typing import Any

import pytest

from agent_sandbox.policy.file.service_options import (
    Access,
    Auth,
    Chosen,
    Declared,
    InvalidOption,
    choose,
    repository_name,
)
from agent_sandbox.policy.match.injection import Credential, Existing, injection
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from table_tests import each

READWRITE = ("read", "readwrite")
BASIC = Auth(host="git.test", kind="basic", username="bot", client_shim="git-askpass")
DECLARED: Declared = {
    "repos": "repositories",
    "git": Access(levels=READWRITE, auth=BASIC),
    "api": Access(levels=READWRITE, auth=Auth(host="api.test")),
    "wiki": Access(levels=READWRITE),
}
LEAST = dict.fromkeys(("git", "api", "wiki"), ("read",))


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, Chosen(kind="repositories", levels=LEAST)),
        ({"git": {"access": "readwrite"}}, Chosen(kind="repositories", levels={"git": READWRITE})),
        ({"api": {"access": "read"}}, Chosen(kind="repositories", levels={"api": ("read",)})),
        (
            {"repos": ["B/x", "a/*", "b/X"]},
            Chosen(repositories=("a/*", "b/x"), kind="repositories", levels=LEAST),
        ),
    ],
)
def test_defaults_all_options_to_read_unless_any_option_is_given(given: dict[str, Any], chosen: Chosen) -> None:
    assert choose("github", DECLARED, given) == chosen


def test_a_rule_for_an_unset_secret_does_not_apply_if_the_secret_is_set() -> None:
    declared: Declared = {"login": Auth(host="api.test"), "key": Auth(host="other.test")}
    for given, meets in (({}, True), ({"key": "a"}, True), ({"login": "a"}, False), ({"login": {"name": "a"}}, False)):
        assert choose("x", declared, given).meets({"login": "unset"}) == meets


PARTS = "access is set for each part: " + ", ".join(
    f"`{part}: {{access: readwrite}}`" for part in ("git", "api", "wiki")
)
LIST = "write `repos: [owner/name]`"
NAME = 'write `owner/name`, or "owner/*" for all of an owner'
ACCESS = "write `git: {access: read}`"
AUTH = "write `auth: {secret: NAME}`"


def with_auth(**auth: object) -> dict[str, object]:
    return {"repos": ["a/b"], "git": {"access": "read", "auth": auth}}


@each(
    ("given", "what", "hint", "at"),
    [
        ({"repo": []}, "service github has no option 'repo'", "did you mean `repos`?", ("repo", "[key]")),
        (
            {"zzz": 1},
            "service github has no option 'zzz'",
            "known: api, budget, git, merge_mode, readonly, repos, wiki",
            ("zzz", "[key]"),
        ),
        (
            {"write": True},
            "service github has no option 'write'",
            PARTS,
            ("write", "[key]"),
        ),
        ({"repos": "a/b"}, "`repos` has to be a list of repositories", "write `repos: [a/b]`", ("repos",)),
        ({"repos": "a b"}, "`repos` has to be a list of repositories", LIST, ("repos",)),
        ({"repos": []}, "`repos` has to be a list of repositories", LIST, ("repos",)),
        ({"repos": ["a/b", 1]}, "not a repository", NAME, ("repos", 1)),
        ({"repos": ["a"]}, "not a repository: 'a'", NAME, ("repos", 0)),
        ({"repos": ["*/b"]}, "not a repository: '*/b'", NAME, ("repos", 0)),
        ({"repos": ["a/b*"]}, "not a repository: 'a/b*'", NAME, ("repos", 0)),
        ({"repos": ["a/b/c"]}, "not a repository: 'a/b/c'", NAME, ("repos", 0)),
        ({"repos": ["a/.."]}, "not a repository: 'a/..'", NAME, ("repos", 0)),
        (
            {"repos": [{"name": "a/b"}]},
            "a repository with options needs `name` and `access`",
            "write `{name: owner/name, access: read}`",
            ("repos", 0),
        ),
        (
            {"repos": ["c/d", {"name": "a/b", "access": "write"}]},
            "unknown access 'write'",
            "did you mean `readwrite`?",
            ("repos", 1, "access"),
        ),
        (
            {"repos": [{"name": "a/b", "access": "read", "git": "x"}]},
            "unknown key 'git'",
            "write `{name: owner/name, access: read}`",
            ("repos", 0, "git", "[key]"),
        ),
        ({"repos": [{"name": "a", "access": "read"}]}, "not a repository: 'a'", NAME, ("repos", 0)),
        (
            {"repos": ["a/b", {"name": "A/B", "access": "read"}]},
            "A/B is named twice, with different access",
            "keep one of them",
            ("repos", 1),
        ),
        (
            {"repos": [{"name": "a/b", "access": "read"}, "a/*"]},
            "a/b would have the access of a/*",
            "remove a/b, or name the owner's repositories one by one",
            ("repos",),
        ),
        ({"repos": ["a/b.git"]}, "not a repository: 'a/b.git'", NAME, ("repos", 0)),
        (
            {"repos": ["https://a.test/a/b"]},
            "not a repository: 'https://a.test/a/b'",
            "write `a/b`",
            ("repos", 0),
        ),
        ({"git": "read"}, "`git` needs `access`", ACCESS, ("git",)),
        ({"git": {}}, "`git` needs `access`", ACCESS, ("git",)),
        (
            {"wiki": {"access": "read", "auth": {}}},
            "unknown key 'auth'",
            "write `wiki: {access: read}`",
            ("wiki", "auth", "[key]"),
        ),
        ({"git": {"access": "read", "auth": {}}}, "`auth` needs a secret", AUTH, ("git", "auth")),
        ({"git": {"access": "read", "auth": "token"}}, "`auth` needs a secret", AUTH, ("git", "auth")),
        (with_auth(secret="t", x="y"), "unknown key 'x'", AUTH, ("git", "auth", "x", "[key]")),
        (
            with_auth(secret="a b"),
            "not a secret name: 'a b'",
            "use letters, digits, `.`, `_` and `-`, such as `github.token`",
            ("git", "auth", "secret"),
        ),
        (
            with_auth(secret="t", client_shim={"kind": "env"}),
            "`git` does not have this `client_shim`",
            "write `client_shim: {kind: git-askpass}`",
            ("git", "auth", "client_shim"),
        ),
        (
            {"git": {"access": "read", "auth": {"secret": "t"}}},
            "a secret needs named repositories",
            LIST,
            ("git",),
        ),
        ({"git": {"access": "reed"}}, "unknown access 'reed'", "did you mean `read`?", ("git", "access")),
        ({"git": {"access": "READ"}}, "unknown access 'READ'", "did you mean `read`?", ("git", "access")),
        ({"git": {"access": True}}, "unknown access 'True'", "known: read, readwrite", ("git", "access")),
    ],
)
def test_reports_an_invalid_service_option_with_a_hint_and_its_location(
    given: dict[str, Any], what: str, hint: str, at: tuple[str | int, ...]
) -> None:
    with pytest.raises(InvalidOption) as invalid:
        choose("github", DECLARED, given)
    assert (invalid.value.what, invalid.value.hint, invalid.value.at) == (what, hint, at)


@each(
    ("when", "meets"),
    [
        ({}, True),
        ({"git": "read"}, True),
        ({"git": "readwrite"}, True),
        ({"api": "read"}, False),
        ({"repos": "named"}, True),
        ({"repos": "any"}, False),
        ({"repos": "named", "api": "read"}, False),
    ],
)
def test_a_rule_applies_if_all_options_in_its_when_are_chosen(when: dict[str, str], *, meets: bool) -> None:
    chosen = choose("github", DECLARED, {"repos": ["a/b"], "git": {"access": "readwrite"}})
    assert chosen.meets(when) is meets
    assert choose("github", DECLARED, {}).meets({"repos": "any"})


@each(
    ("kind", "text", "repos", "paths"),
    [
        (PathKind.PREFIX, "/plain", ["a/b"], ["/plain/..."]),
        (PathKind.PREFIX, "/{repo}", ["A/b"], ["/a/b/..."]),
        (PathKind.EXACT, "/repos/{repo}", ["a/b", "c/d"], ["/repos/a/b", "/repos/c/d"]),
        (PathKind.GLOB, "/{repo}/x/*", ["a/b", "c/*"], ["/a/b/x/*", "/c/*/x/*"]),
        (PathKind.EXACT, "/{repo}", ["c/*"], ["/c/*"]),
        (PathKind.PREFIX, "/{repo}", ["c/*"], ["/c/*", "/c/*/**"]),
        (PathKind.GLOB, "/{repo}/x", [], ["/*/*/x"]),
        (PathKind.PREFIX, "/{repo}/", [], ["/*/*", "/*/*/**"]),
    ],
)
def test_expands_a_path_to_one_for_each_repository(
    kind: PathKind, text: str, repos: list[str], paths: list[str]
) -> None:
    chosen = choose("github", DECLARED, {"repos": repos} if repos else {})
    assert [str(path) for path in chosen.paths(parse_path_pattern(kind, text), {})] == paths


READ_ONE = [{"name": "a/b", "access": "read"}, {"name": "e/f", "access": "readwrite"}, "c/*"]


@each(
    ("access", "when", "paths"),
    [
        ("readwrite", {"git": "read"}, ["/a/b", "/c/*", "/e/f"]),
        ("readwrite", {"git": "readwrite"}, ["/c/*", "/e/f"]),
        ("readwrite", {}, ["/a/b", "/c/*", "/e/f"]),
        ("readwrite", {"repos": "named"}, ["/a/b", "/c/*", "/e/f"]),
        ("read", {"git": "read"}, ["/a/b", "/c/*", "/e/f"]),
    ],
)
def test_a_repository_can_have_less_access_than_the_others(access: str, when: dict[str, str], paths: list[str]) -> None:
    chosen = choose("github", DECLARED, {"repos": READ_ONE, "git": {"access": access}})
    pattern = parse_path_pattern(PathKind.EXACT, "/{repo}")
    assert [str(path) for path in chosen.paths(pattern, when)] == paths


NESTED: Declared = {"repos": "nested repositories", "git": DECLARED["git"]}


@each(
    ("name", "is_one"),
    [
        ("g/n", True),
        ("g/s/t/n", True),
        ("g/*", True),
        ("g/s/*", True),
        ("_g/n", True),
        ("n", False),
        ("g/*/n", False),
        ("g/../n", False),
        ("g/-/n", False),
        ("g//n", False),
        ("/g/n", False),
        ("g/n.git", False),
        ("-g/n", False),
        ("g/" * 30 + "n", False),
    ],
)
def test_a_service_can_have_repositories_in_groups(name: str, *, is_one: bool) -> None:
    if is_one:
        assert choose("x", NESTED, {"repos": [name]}).repositories == (name,)
    else:
        with pytest.raises(InvalidOption):
            choose("x", NESTED, {"repos": [name]})


def test_reaches_only_repositories_with_enough_access() -> None:
    given = {"repos": ["a/b", {"name": "a/c", "access": "read"}], "git": {"access": "readwrite"}}
    chosen = choose("github", DECLARED, given)
    assert chosen.reached({"git": "read"}) == ("a/b", "a/c")
    assert chosen.reached({"git": "readwrite"}) == ("a/b",)


def test_reads_the_name_of_a_repository_with_or_without_access() -> None:
    assert [repository_name(item) for item in ("a/b", {"name": "c/d", "access": "read"})] == ["a/b", "c/d"]


def test_any_nested_repository_matches_any_number_of_groups() -> None:
    pattern = parse_path_pattern(PathKind.GLOB, "/{repo}/git-upload-pack")
    assert [str(path) for path in choose("x", NESTED, {}).paths(pattern, {})] == ["/**/git-upload-pack"]


def test_a_write_rule_does_not_apply_if_no_repository_has_write_access() -> None:
    chosen = choose("github", DECLARED, {"repos": READ_ONE[:1], "git": {"access": "readwrite"}})
    assert (chosen.meets({"git": "readwrite"}), chosen.meets({"git": "read"})) == (False, True)


def test_the_repository_placeholder_is_literal_without_a_repos_option() -> None:
    pattern = parse_path_pattern(PathKind.EXACT, "/{repo}")
    assert list(choose("github", {"git": DECLARED["git"]}, {}).paths(pattern, {})) == [pattern]


@each(
    ("reading", "matches"),
    [
        ("/repos/owner/name/x", True),
        ("/repos/OWNER/Name/x", True),
        ("/Repos/owner/name/x", False),
        ("/repos/owner/name/X", False),
        ("/repos/owner/names/x", False),
    ],
)
def test_matches_only_the_repository_name_in_any_case(reading: str, *, matches: bool) -> None:
    (path,) = choose("x", DECLARED, {"repos": ["Owner/NAME"]}).paths(
        parse_path_pattern(PathKind.EXACT, "/repos/{repo}/x"), {}
    )
    assert path.matches(reading) is matches


def test_an_invalid_option_error_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(InvalidOption("what", "hint", "repos", 1)))  # noqa: S301 - our own
    assert (copy.what, copy.hint, copy.at) == ("what", "hint", ("repos", 1))


def test_injects_a_secret_only_for_rules_of_its_option_at_its_host() -> None:
    chosen = choose("github", DECLARED, with_auth(secret="t"))
    basic = injection([Credential(header="authorization", secret="t", kind="basic", username="bot")])
    assert chosen.secret_for("git.test", {"repos": "named", "git": "read"}) == basic
    assert chosen.secret_for("other.test", {"git": "read"}) is None
    assert chosen.secret_for("git.test", {"api": "read"}) is None


def test_replaces_the_placeholder_of_a_client_shim() -> None:
    shim = {"kind": "git-askpass"}
    chosen = choose("github", DECLARED, with_auth(secret="t", client_shim=shim))
    secret = chosen.secret_for("git.test", {"git": "read"})
    assert secret is not None
    assert secret.existing is Existing.REPLACE


def test_a_service_without_repositories_can_have_a_secret() -> None:
    declared = {"api": Access(levels=("read",), auth=Auth(host="api.test"))}
    chosen = choose("s", declared, {"api": {"access": "read", "auth": {"secret": "t"}}})
    assert chosen.secret_for("api.test", {"api": "read"}) == injection([Credential(header="authorization", secret="t")])


KEYED: Declared = {
    "secret": Auth(
        host="api.test", kind="raw", header="x-api-key", env="API_KEY", prefix="sk-", others=("authorization",)
    )
}


@each(
    ("value", "existing"),
    [
        ("token", Existing.FAIL),
        ({"name": "token"}, Existing.FAIL),
        ({"name": "token", "on_existing_header": "keep"}, Existing.KEEP),
        ({"name": "token", "on_existing_header": "replace"}, Existing.REPLACE),
    ],
)
def test_injects_a_service_wide_secret_for_all_rules_at_its_host(value: object, existing: Existing) -> None:
    chosen = choose("s", KEYED, {"secret": value})
    credential = Credential(
        header="x-api-key", secret="token", kind="raw", env="API_KEY", prefix="sk-", others=("authorization",)
    )
    assert chosen.secret_for("api.test", {}) == injection([credential], existing=existing)
    assert chosen.secret_for("other.test", {}) is None


EITHER = "write `secret: NAME`, or `secret: {name: NAME, on_existing_header: keep}`"


@each(
    ("value", "what", "hint", "at"),
    [
        (True, "`secret` needs the name of a secret", EITHER, ("secret",)),
        ({}, "`secret` needs the name of a secret", EITHER, ("secret",)),
        ({"name": "t", "nam": 1}, "unknown key 'nam'", EITHER, ("secret", "nam", "[key]")),
        (
            {"name": "t", "on_existing_header": "keeps"},
            "unknown value 'keeps'",
            "did you mean `keep`?",
            ("secret", "on_existing_header"),
        ),
        (
            "a b",
            "not a secret name: 'a b'",
            "use letters, digits, `.`, `_` and `-`, such as `github.token`",
            ("secret",),
        ),
        (
            {"name": "a b"},
            "not a secret name: 'a b'",
            "use letters, digits, `.`, `_` and `-`, such as `github.token`",
            ("secret", "name"),
        ),
    ],
)
def test_reports_an_invalid_secret_of_a_service(value: object, what: str, hint: str, at: tuple[str, ...]) -> None:
    with pytest.raises(InvalidOption) as invalid:
        choose("s", KEYED, {"secret": value})
    assert (invalid.value.what, invalid.value.hint, invalid.value.at) == (what, hint, at)


def test_only_a_part_with_a_client_shim_has_a_placeholder() -> None:
    auth = Auth(host="api.test", client_shim="env", env="GH_TOKEN", also=("B_KEY",), prefix="ghp_")
    declared: Declared = {"api": Access(levels=("read",), auth=auth)}
    for more, env in (({}, ""), ({"client_shim": {"kind": "env"}}, "GH_TOKEN")):
        chosen = choose("s", declared, {"api": {"access": "read", "auth": {"secret": "t", **more}}})
        secret = chosen.secret_for("api.test", {"api": "read"})
        assert secret is not None
        assert (secret.credentials[0].env, secret.credentials[0].also) == (env, ("B_KEY",) if env else ())


def test_injects_a_secret_at_each_of_its_hosts_and_rejects_two_secrets_for_one_host() -> None:
    login = Auth(host="a.test", more_hosts=("b.test",))
    declared: Declared = {"secret": Auth(host="a.test", kind="raw", header="x-key"), "login": login}
    chosen = choose("s", declared, {"login": "t"})
    assert [chosen.secret_for(host, {}) for host in ("a.test", "b.test")] == [
        login.injection("t", Existing.FAIL, placeholder=True)
    ] * 2
    assert chosen.secret_for("c.test", {}) is None
    with pytest.raises(InvalidOption) as invalid:
        choose("s", declared, {"secret": "k", "login": "t"})
    assert (invalid.value.what, invalid.value.hint) == ("service s has two secrets for a.test", "keep one of them")
