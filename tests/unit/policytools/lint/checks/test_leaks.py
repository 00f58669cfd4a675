from collections.abc import Callable

from agent_sandbox.policytools.lint.checks.leaks import shared_store, upload_host, upload_registry
from agent_sandbox.policytools.lint.subject import Subject
from policy_texts import Find
from table_tests import each

GISTS = "api.github.com accepts gists and snippets from anyone with a token"


@each(
    ("entry", "what"),
    [
        ("pastebin.com", "pastebin.com accepts pastes from anyone"),
        ("{host: transfer.sh, rules: [{methods: [PUT]}]}", "transfer.sh accepts files from anyone"),
        (
            "{host: docs.google.com, rules: [{methods: [GET]}]}",
            "docs.google.com sends what is submitted to the owner of the form",
        ),
        (".uguu.se", "uguu.se accepts files from anyone"),
        ("hooks.slack.com", "hooks.slack.com posts into the chat of the webhook's owner"),
        (
            "{host: webhook.site, rules: [{methods: [GET]}]}",
            "webhook.site shows each request to the owner of the inbox",
        ),
        ("api.github.com", GISTS),
        ("{host: api.github.com, rules: [{methods: [POST], path: {prefix: /gists}}]}", GISTS),
        ("{host: api.github.com, rules: [{methods: [POST], path: {glob: /*/x}}]}", GISTS),
        ("{host: api.github.com, rules: [{methods: [PATCH], path: {exact: /gists/1}}]}", GISTS),
    ],
)
def test_finds_hosts_where_anyone_can_upload_or_collect_data(find: Find, entry: str, what: str) -> None:
    assert find(upload_host, f"domains:\n  - {entry}") == [(2, what)]


@each(
    "entry",
    [
        "{host: pastebin.com, rules: [{methods: [GET]}]}",
        "{host: api.github.com, rules: [{methods: [GET]}, {methods: [POST], path: {prefix: /repos/o/n/}}]}",
        "{host: api.github.com, rules: [{methods: [POST], path: {exact: /gistsy}}]}",
        "{host: api.github.com, rules: [{methods: [POST], path: {glob: /repos/*/x}}]}",
        "example.com",
    ],
)
def test_ignores_reading_from_upload_hosts_and_writing_elsewhere(find: Find, entry: str) -> None:
    assert find(upload_host, f"domains:\n  - {entry}\ndeny: [pastebin.com]") == []


@each(
    ("entry", "what"),
    [
        ("s3.amazonaws.com", "s3.amazonaws.com is for every bucket of Amazon S3"),
        ("s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com is for every bucket of Amazon S3"),
        (
            "{host: storage.googleapis.com, rules: [{path: {prefix: /}}]}",
            "storage.googleapis.com is for every bucket of Google",
        ),
        (
            "{host: storage.googleapis.com, rules: [{path: {glob: /*/x}}]}",
            "storage.googleapis.com is for every bucket of Google",
        ),
        (
            "{host: storage.googleapis.com, rules: [{path: {glob: /my-*}}]}",
            "storage.googleapis.com is for every bucket of Google",
        ),
    ],
)
def test_finds_entries_for_every_bucket_of_an_object_store(find: Find, entry: str, what: str) -> None:
    ((line, found),) = find(shared_store, f"domains:\n  - {entry}")
    assert (line, found[: len(what)]) == (2, what)


@each(
    "entry",
    [
        "{host: s3.amazonaws.com, rules: [{path: {prefix: /bucket/}}, {path: {exact: /bucket}}]}",
        "{host: s3.amazonaws.com, rules: [{path: {glob: /bucket/*/x}}]}",
        "bucket.s3.amazonaws.com",
        '"*.amazonaws.com"',
        "example.com",
    ],
)
def test_ignores_entries_for_one_bucket(find: Find, entry: str) -> None:
    assert find(shared_store, f"domains:\n  - {entry}") == []


def test_finds_a_resolved_service_that_fetches_from_an_upload_host(find: Find) -> None:
    reading = "domains: [{host: transfer.sh, rules: [{methods: [GET]}]}, {host: a.test, rules: [{methods: [GET]}]}]"
    what = "service `node` fetches from transfer.sh, which accepts files from anyone"
    assert find(upload_registry, "services:\n  - s\n  - node\n", services={"node": reading, "s": reading}) == [
        (3, what)
    ]


def test_checks_hosts_of_a_host_list(find: Find) -> None:
    text = "version: 1\ndomains_file: hosts.txt"
    hosts = "example.com\npastebin.com\n*.uguu.se\ns3.eu-west-1.amazonaws.com\n"
    assert find(upload_host, text, hosts=hosts) == [(2, "pastebin.com accepts pastes from anyone")]
    what = "s3.eu-west-1.amazonaws.com is for every bucket of Amazon S3: the path names the bucket"
    assert find(shared_store, text, hosts=hosts) == [(2, what)]
    assert find(shared_store, text, hosts="example.com\n") == []


@each(
    ("budget", "suggested"),
    [("", True), ("budget: {upload: 1KiB/day}, ", False), ("budget: {download: 1KiB/day}, ", True)],
)
def test_suggests_an_upload_budget_if_there_is_none(
    subject_of: Callable[..., Subject],
    budget: str,
    suggested: bool,  # noqa: FBT001
) -> None:
    written = f"domains:\n  - {{host: pastebin.com, {budget}rules: [{{methods: [POST]}}]}}"
    found = list(upload_host(subject_of(written)))
    hint = ", or limit it: `budget: {upload: 1MiB/day}`"
    assert [one.fix.endswith(hint) for one in found] == [suggested]
