import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from agent_sandbox.features.trust import reach_diff
from agent_sandbox.features.trust.prompt import Question, Written, _sets, changes, question_about, unseen_in
from agent_sandbox.project.trust_snapshot import Standing, look
from agent_sandbox.project.trust_store import open_store
from table_tests import each

NAMED_IN = "`COMPOSE_FILE` in .env or `dockerComposeFile` in devcontainer.json"
COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"
STACK = "services:\n  agent:\n    volumes: ['..:/workspace']\n"
FILES = {COMPOSE: STACK, DEVCONTAINER: '{"name": "app"}', POLICY: "version: 1\ndomains: [example.org]\n"}
TRUSTED = Standing(root=Path("/p"), owner=None, stack_files=(COMPOSE,), files=FILES)
PROJECT_FILE = ".devcontainer/sandbox.yaml"
FILE = ".devcontainer/l.txt"
ASKED = (f"--- a/{POLICY}", f"+++ b/{POLICY}", "@@ -0,0 +1,2 @@", "+version: 1", "+domains: [example.org]")
WRITTEN = Written(files={COMPOSE: STACK, DEVCONTAINER: FILES[DEVCONTAINER]}, members={"name": "app"})


def with_file(path: str, text: str) -> Standing:
    return replace(TRUSTED, files={**FILES, path: text})


def test_lists_all_files_of_a_project_that_is_not_trusted_yet() -> None:
    assert changes(TRUSTED, None) == (COMPOSE, DEVCONTAINER, POLICY)


@pytest.mark.parametrize(
    "now",
    [
        TRUSTED,
        with_file(POLICY, "# narrower\nversion: 1\n"),
        replace(TRUSTED, files={COMPOSE: STACK}),
        with_file(PROJECT_FILE, "limits: {memory: 1g}\n"),
    ],
)
def test_does_not_list_changes_that_do_not_widen(now: Standing) -> None:
    assert changes(now, TRUSTED) == ()


@each(
    ("now", "expected"),
    [
        (with_file(POLICY, "version: 1\ndomains: [example.org, example.net]\n"), (POLICY,)),
        (with_file(POLICY, "domainz: [broken.test]\n"), (POLICY,)),
        (with_file(COMPOSE, "services: {}\n"), (COMPOSE,)),
        (with_file(DEVCONTAINER, '{"name": "app" }'), (DEVCONTAINER,)),
        (with_file(PROJECT_FILE, "limits: {memory: 9g}\n"), (PROJECT_FILE,)),
        (with_file(PROJECT_FILE, "limit: {}\n"), (PROJECT_FILE,)),
        (replace(TRUSTED, owner=7), ("its owner",)),
        (replace(with_file("x.yml", "{}"), stack_files=(COMPOSE, "x.yml")), (".env", "x.yml")),
    ],
)
def test_lists_every_other_change(now: Standing, expected: tuple[str, ...]) -> None:
    assert changes(now, TRUSTED) == expected


@pytest.mark.parametrize("path", [POLICY, PROJECT_FILE])
@pytest.mark.parametrize("named", ["setup: {0}\n", "dockerfile: {1}\n"])
def test_lists_every_change_of_a_settings_file_that_is_also_run_or_built(path: str, named: str) -> None:
    trusted = with_file(PROJECT_FILE, named.format(path, Path(path).name))
    now = replace(trusted, files={**trusted.files, path: f"# syntax=example.org/x\n{trusted.files[path]}"})
    assert changes(now, trusted) == (path,)
    long = replace(trusted, files={**trusted.files, path: f"# new\n{'#' * 9}\n" * 20_000 + trusted.files[path]})
    assert "+# new" in question_about(long, trusted, WRITTEN).differences


@each(
    ("text", "reaches", "loads"),
    [(FILES[POLICY], (), 0), ("version: 1\ndomains: [example.net]\n", ("any method example.net",), 2)],
)
def test_policies_are_loaded_once_each_and_only_if_they_differ(
    text: str, reaches: tuple[str, ...], loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Mock(wraps=reach_diff.policy_of)
    monkeypatch.setattr(reach_diff, "policy_of", load)
    now = replace(TRUSTED, files={**FILES, COMPOSE: "services: {}\n", POLICY: text})
    assert question_about(now, TRUSTED, WRITTEN).reaches == reaches
    assert load.call_count == loads


def test_lists_env_if_the_stack_has_lost_a_compose_file() -> None:
    more = replace(with_file("x.yml", "{}"), stack_files=(COMPOSE, "x.yml"))
    assert changes(TRUSTED, more) == (".env",)


def test_lists_a_removed_project_file_only_if_it_restricted() -> None:
    assert changes(TRUSTED, with_file(PROJECT_FILE, "limits: {memory: 9g}\n")) == ()
    assert changes(TRUSTED, with_file(PROJECT_FILE, "limits: {memory: 1g}\n")) == (PROJECT_FILE,)


def test_asks_about_a_service_beside_the_sandbox_and_changes_of_its_dockerfile() -> None:
    beside = "beside: {db: {build: {dockerfile: D}, expose: [5432]}}\n"
    now = with_file(PROJECT_FILE, beside)
    now = replace(now, files={**now.files, ".devcontainer/D": "FROM x\n"})
    question = question_about(now, TRUSTED, WRITTEN)
    assert question.sets == (
        "beside: db is built with D, which follows",
        "beside: db is reached by the agent on port 5432",
    )
    assert "+FROM x" in question.differences
    other = replace(now, files={**now.files, ".devcontainer/D": "FROM y\n"})
    assert changes(other, now) == (".devcontainer/D",)
    assert question_about(other, now, WRITTEN).fingerprint != question.fingerprint


def test_prompt_lists_each_key_of_the_project_file_that_widens() -> None:
    now = with_file(PROJECT_FILE, "limits: {memory: 9g, cpus: 1}\n")
    question = question_about(now, TRUSTED, WRITTEN)
    assert question.sets == ("limits: memory 9g, before 8g; the default is 8g",)
    assert question.differences == (
        f"--- a/{PROJECT_FILE}",
        f"+++ b/{PROJECT_FILE}",
        "@@ -0,0 +1 @@",
        "+limits: {memory: 9g, cpus: 1}",
    )


def test_the_first_question_shows_no_differences_for_files_that_init_writes() -> None:
    expected = Question(
        standing=TRUSTED,
        fingerprint=replace(TRUSTED, stack_files=(), files={POLICY: FILES[POLICY]}).fingerprint,
        changed=(COMPOSE, DEVCONTAINER, POLICY),
        known=False,
        sets=(),
        reaches=("any method example.org",),
        mounts=("agent: . as /workspace",),
        injects=(),
        editor=(),
        notes=(),
        differences=ASKED,
    )
    assert question_about(TRUSTED, None, WRITTEN) == expected


def test_the_first_question_compares_the_compose_file_with_what_init_writes() -> None:
    now = with_file(COMPOSE, STACK.replace("/workspace", "/host").replace("..:", "/:"))
    got = question_about(now, None, WRITTEN)
    assert (got.mounts, got.differences) == (
        ("agent: / as /host",),
        (
            f"--- a/{COMPOSE}",
            f"+++ b/{COMPOSE}",
            "@@ -1,3 +1,3 @@",
            " services:",
            "   agent:",
            "-    volumes: ['..:/workspace']",
            "+    volumes: ['/:/host']",
            *ASKED,
        ),
    )
    assert got.fingerprint == now.apart_from([DEVCONTAINER]).fingerprint


def test_escapes_control_characters_in_file_names() -> None:
    name = "a.yml\n+services: {}\x1b"
    now = replace(TRUSTED, stack_files=(COMPOSE, name), files={**FILES, name: "services: {agent: {}}\n"})
    shown = "a.yml\\x0a+services: {}\\x1b"
    expected = (f"--- a/{shown}", f"+++ b/{shown}", "@@ -0,0 +1 @@", "+services: {agent: {}}")
    assert question_about(now, TRUSTED, WRITTEN).differences == expected


def test_compares_changed_files_with_the_trusted_files() -> None:
    now = replace(
        TRUSTED,
        owner=7,
        stack_files=(COMPOSE, "more.yml"),
        files={
            COMPOSE: STACK,
            "more.yml": "services: {agent: {volumes: ['/etc:/etc'], environment: [TOKEN]}}\n",
            DEVCONTAINER: '{"name": "app", "initializeCommand": "make"}',
            POLICY: "version: 1\ndomains: [example.org, example.net]\n",
        },
    )
    expected = Question(
        standing=now,
        fingerprint=now.apart_from([COMPOSE]).fingerprint,
        changed=("its owner", ".env", "more.yml", DEVCONTAINER, POLICY),
        known=True,
        sets=(),
        reaches=("any method example.net",),
        mounts=("agent: /etc as /etc",),
        injects=("TOKEN",),
        editor=('on this machine, initializeCommand: "make"',),
        notes=(
            "this directory belongs to user 7, who can change everything in it",
            f"more.yml, named by {NAMED_IN}, can be written by the agent: move it into .devcontainer",
        ),
        differences=(
            "--- a/more.yml",
            "+++ b/more.yml",
            "@@ -0,0 +1 @@",
            "+services: {agent: {volumes: ['/etc:/etc'], environment: [TOKEN]}}",
            f"--- a/{DEVCONTAINER}",
            f"+++ b/{DEVCONTAINER}",
            "@@ -1 +1 @@",
            '-{"name": "app"}',
            '+{"name": "app", "initializeCommand": "make"}',
            f"--- a/{POLICY}",
            f"+++ b/{POLICY}",
            "@@ -1,2 +1,2 @@",
            " version: 1",
            "-domains: [example.org]",
            "+domains: [example.org, example.net]",
        ),
    )
    assert question_about(now, TRUSTED, WRITTEN) == expected


@each(
    ("compose", "note", "differences"),
    [
        (
            (COMPOSE,),
            f"{COMPOSE}, x.yml, y.yml; by {NAMED_IN} it now consists of {COMPOSE}",
            (
                *("--- a/x.yml", "+++ b/x.yml", "@@ -1 +0,0 @@", "-services: {agent: {read_only: true}}"),
                *("--- a/y.yml", "+++ b/y.yml", "@@ -1 +0,0 @@", "-services: {}"),
            ),
        ),
        (
            (COMPOSE, "y.yml", "x.yml"),
            f"{COMPOSE}, x.yml, y.yml; by {NAMED_IN} it now consists of {COMPOSE}, y.yml, x.yml",
            (),
        ),
    ],
)
def test_shows_compose_files_that_the_stack_has_lost_or_reordered(
    compose: tuple[str, ...], note: str, differences: tuple[str, ...]
) -> None:
    files = {**FILES, "x.yml": "services: {agent: {read_only: true}}\n", "y.yml": "services: {}\n"}
    trusted = replace(TRUSTED, stack_files=(COMPOSE, "x.yml", "y.yml"), files=files)
    now = replace(trusted, stack_files=compose, files={**FILES, **{path: files[path] for path in compose}})
    got = question_about(now, trusted, WRITTEN)
    writable = tuple(
        f"{path}, named by {NAMED_IN}, can be written by the agent: move it into .devcontainer" for path in compose[1:]
    )
    assert got.changed == (".env",)
    assert got.notes == (f"the stack consisted of {note}", *writable)
    assert got.differences == differences


@each("text", [STACK.replace("\n", "\r\n"), STACK.removesuffix("\n")])
def test_reports_a_file_that_differs_only_in_its_line_endings(text: str) -> None:
    got = question_about(with_file(COMPOSE, text), TRUSTED, WRITTEN)
    assert (got.changed, got.differences) == ((COMPOSE,), (f"{COMPOSE} differs only in its line endings",))


def test_does_not_compare_a_very_long_policy_line_by_line() -> None:
    now = with_file(POLICY, "version: 1\ndomains:\n  - example.net\n" + "#\n" * 20_000)
    got = question_about(now, TRUSTED, WRITTEN)
    assert got.reaches == ("any method example.net",)
    assert got.differences == (f"{POLICY} is too long to compare line by line",)


def test_unseen_in_lists_files_until_they_are_trusted(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    for path, text in FILES.items():
        (tmp_path / path).write_text(text)
    assert unseen_in(tmp_path, os.environ) == (COMPOSE, DEVCONTAINER, POLICY)
    open_store(os.environ).save(look(tmp_path, os.environ))
    assert unseen_in(tmp_path, os.environ) == ()


def test_reports_the_number_and_the_first_hosts_of_a_host_list() -> None:
    text = "# hosts\n" + "".join(f"h{number}.test\n" for number in range(7))
    now = replace(TRUSTED, files={**FILES, POLICY: "domains_file: l.txt\n", FILE: text})
    told = f"{FILE} names 7 hosts: h0.test, h1.test, h2.test, h3.test, h4.test, ..."
    assert question_about(now, TRUSTED, WRITTEN).notes == (told,)


def standing(text: str | None) -> Standing:
    files = {} if text is None else {PROJECT_FILE: text}
    return Standing(root=Path("/p"), owner=None, stack_files=(), files=files)


@each(
    ("now", "before", "lines"),
    [
        (None, None, ()),
        ("limits: {memory: 9g}", None, ("limits: memory 9g, before 8g; the default is 8g",)),
        (
            "limit: {}",
            None,
            (f"cannot be read: {PROJECT_FILE}:1:1: unknown key 'limit'; did you mean `limits`?",),
        ),
        ("agents: [unknown-here]", None, ("agents: unknown-here",)),
    ],
)
def test_lists_settings_of_the_project_file_that_widen(
    now: str | None, before: str | None, lines: tuple[str, ...]
) -> None:
    assert _sets(standing(now), standing(before)) == lines
