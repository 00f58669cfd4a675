from typing import Any

from agent_sandbox.features.secrets.git_repositories import Wanted, bound_hosts, options_for, secret_of
from agent_sandbox.policy.file.service_options import Access, Auth, Declared, choose
from table_tests import each

READWRITE = ("read", "readwrite")
DECLARED: Declared = {
    "repos": "repositories",
    "git": Access(levels=READWRITE, auth=Auth(host="git.test", kind="basic", username="x", client_shim="git-askpass")),
    "web": Access(levels=("read",)),
    "api": Access(levels=READWRITE, auth=Auth(host="api.test", client_shim="env", env="A_TOKEN")),
}
TOKEN = {"secret": "t"}
SHIM = {**TOKEN, "client_shim": {"kind": "env"}}
ALL_WRITTEN = {
    "git": {"access": "readwrite", "auth": TOKEN},
    "web": {"access": "read"},
    "api": {"access": "readwrite", "auth": SHIM},
}
READ_B = {"name": "a/b", "access": "read"}


@each(
    ("entry", "wanted", "options"),
    [
        ({}, {"a/b": "readwrite"}, {"repos": ["a/b"], **ALL_WRITTEN}),
        ({"name": "x"}, {"a/b": "read", "C/d": "readwrite"}, {"repos": [READ_B, "C/d"], **ALL_WRITTEN}),
        (
            {},
            {"a/b": "read"},
            {
                "repos": ["a/b"],
                "git": {"access": "read", "auth": TOKEN},
                "web": {"access": "read"},
                "api": {"access": "read", "auth": SHIM},
            },
        ),
        # The access of the parts that the entry chose stays, except for git.
        (
            {"repos": ["a/b"], "git": {"access": "read"}, "api": {"access": "read"}},
            {"c/d": "readwrite"},
            {"repos": [READ_B, "c/d"], "git": {"access": "readwrite", "auth": TOKEN}},
        ),
        (
            {"repos": ["a/b"], "api": {"access": "readwrite"}},
            {"a/b": "read"},
            {"repos": [READ_B], "git": {"access": "read", "auth": TOKEN}},
        ),
        # What is to be read only is no longer written.
        (
            {"repos": ["a/b"], "git": {"access": "readwrite", "auth": TOKEN}},
            {"a/b": "read"},
            {"git": {"access": "read", "auth": TOKEN}},
        ),
        (
            {"repos": ["a/b"], **ALL_WRITTEN},
            {"a/b": "read"},
            {"repos": [READ_B], "git": {"access": "read", "auth": TOKEN}},
        ),
        # What may be written stays so.
        (
            {"repos": ["e/f"], "git": {"access": "readwrite", "auth": {"secret": "own"}}},
            {"a/b": "read"},
            {"repos": ["e/f", READ_B]},
        ),
        (
            {"repos": ["A/b", {"name": "c/d", "access": "read"}], "git": {"access": "readwrite"}},
            {"a/B": "read", "C/D": "readwrite"},
            {"repos": [{"name": "a/B", "access": "read"}, "C/D"], "git": {"access": "readwrite", "auth": TOKEN}},
        ),
    ],
)
def test_adds_repositories_and_keeps_the_other_options_of_the_entry(
    entry: dict[str, Any], wanted: dict[str, str], options: dict[str, Any]
) -> None:
    asked = [Wanted(name=name, access=access, where="") for name, access in wanted.items()]
    assert options_for(DECLARED, entry, asked, "t") == options
    given = {name: value for name, value in {**entry, **options}.items() if name != "name"}
    assert choose("x", DECLARED, given).repositories


def test_a_secret_is_bound_to_the_hosts_of_the_parts_that_use_it() -> None:
    options = {"git": {"auth": {"secret": "t"}}, "web": {}, "api": {"auth": {"secret": "other"}}}
    assert bound_hosts(DECLARED, options, "t") == ("git.test",)
    assert (secret_of(options), secret_of({"git": {"access": "read"}}), secret_of({})) == ("t", "", "")
