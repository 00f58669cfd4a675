from typing import Any

import pytest

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.reconcile import (
    Change,
    OnConflict,
    Verdict,
    cleared_dotenv,
    generated,
    merged_devcontainer,
    merged_dotenv,
    yours,
)
from table_tests import each

KEEP, REPLACE = OnConflict.KEEP, OnConflict.REPLACE
OLD, NEW = stamped("old\n", comment="#"), stamped("new\n", comment="#")
WANTED: dict[str, Any] = {"name": "app", "service": "agent", "remoteUser": "dev"}
BODY = '{\n  "name": "app",\n  "service": "agent",\n  "remoteUser": "dev"\n}\n'
VALUES = {"COMPOSE_FILE": ".devcontainer/docker-compose.yml", "COMPOSE_PROJECT_NAME": "app-1"}
LINES = "COMPOSE_FILE=.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME=app-1\n"


@each(
    ("before", "on_conflict", "verdict", "after"),
    [
        (None, KEEP, Verdict.WRITTEN, NEW),
        (NEW, KEEP, Verdict.UNCHANGED, NEW),
        (OLD, KEEP, Verdict.UPDATED, NEW),
        (f"{NEW}mine\n", KEEP, Verdict.KEPT, NEW),
        (f"{NEW}mine\n", REPLACE, Verdict.REPLACED, NEW),
        ("theirs\n", KEEP, Verdict.KEPT, NEW),
        ("theirs\n", REPLACE, Verdict.REPLACED, NEW),
        ("", KEEP, Verdict.KEPT, NEW),
    ],
)
def test_a_generated_file_is_written_updated_kept_or_replaced(
    before: str | None, on_conflict: OnConflict, verdict: Verdict, after: str
) -> None:
    change = generated("f", before, "new\n", comment="#", on_conflict=on_conflict)
    assert (change.verdict, change.before, change.after) == (verdict, before, after)


def test_a_checkout_with_windows_line_endings_is_unchanged() -> None:
    before = NEW.replace("\n", "\r\n")
    assert generated("f", before, "new\n", comment="#", on_conflict=KEEP).verdict is Verdict.UNCHANGED


@pytest.mark.parametrize(
    ("before", "why"), [(f"{NEW}mine\n", "it was edited"), ("theirs\n", "it was not written by agent-sandbox")]
)
def test_states_why_a_file_is_kept(before: str, why: str) -> None:
    assert generated("f", before, "new\n", comment="#", on_conflict=KEEP).why == why


def test_the_policy_is_written_once() -> None:
    assert yours("p", None, lambda: "new\n").verdict is Verdict.WRITTEN
    assert yours("p", "mine\n", pytest.fail) == Change(
        path="p", verdict=Verdict.UNCHANGED, before="mine\n", after="mine\n"
    )


def devcontainer(before: str | None, on_conflict: OnConflict = KEEP) -> Change:
    return merged_devcontainer("d", before, BODY, WANTED, on_conflict=on_conflict)


def test_writes_a_new_devcontainer_json_and_updates_an_unedited_file() -> None:
    assert devcontainer(None).verdict is Verdict.WRITTEN
    assert devcontainer(stamped("{}\n", comment="//")).verdict is Verdict.UPDATED
    assert devcontainer(stamped(BODY, comment="//")).verdict is Verdict.UNCHANGED


def test_merges_a_users_devcontainer_json_and_states_what_was_replaced() -> None:
    before = '// ours\n{\n  "name": "mine",\n  "remoteUser": "vscode", // x\n  "features": {}\n}\n'
    assert devcontainer(before) == Change(
        path="d",
        verdict=Verdict.MERGED,
        before=before,
        after='// ours\n{\n  "name": "mine",\n  "remoteUser": "dev", // x\n'
        '  "features": {},\n  "service": "agent"\n}\n',
        why='`remoteUser` was "vscode"',
    )


def test_a_member_added_to_our_devcontainer_json_is_not_a_conflict() -> None:
    ours = stamped(BODY, comment="//").replace('"dev"\n', '"dev",\n  "customizations": {"vscode": {}}\n')
    assert devcontainer(ours).verdict is Verdict.UNCHANGED


def test_keeps_an_edit_that_breaks_the_stack_until_forced() -> None:
    ours = stamped(BODY, comment="//").replace('"dev"\n', '"root",\n  "x": 1\n')
    kept, forced = devcontainer(ours), devcontainer(ours, REPLACE)
    assert (kept.verdict, kept.why) == (Verdict.KEPT, "it was edited where the stack depends on it")
    assert (forced.verdict, forced.after) == (Verdict.MERGED, ours.replace('"root"', '"dev"'))


def test_reports_a_syntax_error_in_devcontainer_json_with_its_line() -> None:
    with pytest.raises(UserError) as raised:
        devcontainer('{\n  "name" "x"\n}')
    hint = "fix it or move it away; it must be readable, because it is merged, not replaced"
    assert raised.value.problems == (Problem(where="d:2:10", what="expected `:`", hint=hint),)


@pytest.mark.parametrize("on_conflict", OnConflict)
def test_refuses_all_members_that_weaken_the_sandbox_at_once(on_conflict: OnConflict) -> None:
    with pytest.raises(UserError) as raised:
        devcontainer('{\n  "capAdd": ["SYS_ADMIN"],\n  "privileged": true,\n  "securityOpt": []\n}', on_conflict)
    assert raised.value.problems == (
        Problem(where="d:3", what="`privileged` gives the container the whole machine", hint="remove it"),
        Problem(
            where="d:2",
            what="`capAdd` gives the agent capabilities, and so a way around the firewall",
            hint="remove it",
        ),
    )


def test_refuses_a_mount_of_the_docker_socket_in_a_users_devcontainer_json() -> None:
    with pytest.raises(UserError) as raised:
        devcontainer('{"mounts": ["source=/var/run/docker.sock,target=/x,type=bind"]}')
    what = "`mounts` mounts more of this machine into the container than volumes of its own"
    assert raised.value.problems == (Problem(where="d:1", what=what, hint="remove it"),)


def dotenv(before: str | None, on_conflict: OnConflict = KEEP, former: frozenset[str] = frozenset()) -> Change:
    return merged_dotenv("e", before, VALUES, former=former, on_conflict=on_conflict)


@pytest.mark.parametrize("before", [LINES, LINES.replace("=", " = "), f"X=1\n{LINES}", LINES.replace("\n", "\r\n")])
def test_a_dotenv_that_already_has_our_values_is_unchanged(before: str) -> None:
    assert dotenv(before).verdict is Verdict.UNCHANGED


def test_further_compose_files_after_ours_are_not_a_conflict() -> None:
    before = LINES.replace("docker-compose.yml", "docker-compose.yml:mine.yml")
    assert dotenv(before).verdict is Verdict.UNCHANGED


def test_keeps_a_users_compose_file_until_forced() -> None:
    before = LINES.replace(".devcontainer/docker-compose.yml", "compose.yml")
    kept, forced = dotenv(before), dotenv(before, REPLACE)
    assert (kept.verdict, kept.why) == (Verdict.KEPT, "`COMPOSE_FILE` is compose.yml")
    assert (forced.verdict, forced.after) == (Verdict.MERGED, LINES)


def test_updates_a_name_from_an_earlier_init_and_keeps_other_names() -> None:
    before = LINES.replace("app-1", "app-0")
    assert dotenv(before, former=frozenset({"app-0"})).verdict is Verdict.MERGED
    assert dotenv(before).verdict is Verdict.KEPT


def cleared(before: str, on_conflict: OnConflict = KEEP, former: frozenset[str] = frozenset()) -> Change:
    return cleared_dotenv("e", before, VALUES, former=former, on_conflict=on_conflict)


@pytest.mark.parametrize("before", ["", "KEY=1\n", "# A=1", "A=caf\u00e9\r\nB='x\ny'\n"])
def test_clearing_restores_what_was_there_before_init(before: str) -> None:
    change = cleared(dotenv(before).after)
    assert (change.verdict, change.after) == (
        Verdict.UPDATED,
        before if not before or before.endswith("\n") else f"{before}\n",
    )


@pytest.mark.parametrize(
    "before", ["", "KEY=1\n", "COMPOSE_FILE=compose.yml\nCOMPOSE_PROJECT_NAME=mine\n", "# COMPOSE_FILE=x\n"]
)
def test_clearing_does_not_change_a_dotenv_without_our_lines(before: str) -> None:
    assert cleared(before).verdict is Verdict.UNCHANGED


def test_clearing_keeps_a_users_project_name() -> None:
    assert cleared(LINES.replace("app-1", "mine")).after == "COMPOSE_PROJECT_NAME=mine\n"


def test_clearing_removes_a_name_from_an_earlier_init() -> None:
    assert cleared(LINES.replace("app-1", "app-0"), former=frozenset({"app-0"})).after == ""


def test_clearing_keeps_compose_files_that_the_user_added_until_forced() -> None:
    before = LINES.replace("docker-compose.yml", "docker-compose.yml:mine.yml")
    kept, forced = cleared(before), cleared(before, REPLACE)
    assert (kept.verdict, kept.why) == (
        Verdict.KEPT,
        "`COMPOSE_FILE` is .devcontainer/docker-compose.yml:mine.yml",
    )
    assert (forced.verdict, forced.after) == (Verdict.UPDATED, "")


def test_unchanged_and_kept_files_are_not_written() -> None:
    writes = {verdict: Change(path="f", verdict=verdict, before="", after="").writes for verdict in Verdict}
    assert [verdict for verdict, written in writes.items() if not written] == [Verdict.UNCHANGED, Verdict.KEPT]


def test_a_diff_shows_what_would_change() -> None:
    change = Change(path="x", verdict=Verdict.KEPT, before="A=1\nB=2", after="A=1\nB=3\n")
    assert change.diff() == ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n A=1\n-B=2\n\\ No newline at end of file\n+B=3\n")


def test_the_diff_of_a_new_file_starts_from_nothing() -> None:
    change = Change(path="x", verdict=Verdict.WRITTEN, before=None, after="A=1\n")
    assert change.diff() == "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+A=1\n"


def test_the_diff_of_dotenv_shows_no_value_but_those_of_compose() -> None:
    before = "KEY=sk_1\n#OLD_KEY=sk_2\nCOMPOSE_PROJECT_NAME=mine\nLONG='sk_3\nsk_4'\nsk_5\n"
    change = Change(path=".env", verdict=Verdict.KEPT, before=before, after=before.replace("mine", "app"))
    assert "sk_" not in change.diff()
    assert "-COMPOSE_PROJECT_NAME=mine\n+COMPOSE_PROJECT_NAME=app\n" in change.diff()
