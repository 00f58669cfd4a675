import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.pin import Pin
from agent_sandbox.engines.compose.render import render_stack_file
from agent_sandbox.problems import UserError
from agent_sandbox.project.record import (
    VERSION,
    Record,
    facts_said,
    imported,
    known,
    record_of,
    record_text,
    recorded,
    require_true,
    uses_dotenv,
)
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import RECORD, STACK
from agent_sandbox.stack.limits import DEFAULT, limits
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.recorded import Facts, Ide, Owner
from agent_sandbox.stack.workspace import Workspace
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of
from table_tests import each

ROOT = Path("/home/me/app")
PINS = {"claude": Pin(version="9.9.9")}
OURS = replace(
    WORKSPACE,
    title="A $5 app",
    ide=Ide.JETBRAINS,
    owner=Owner(uid=501, gid=20),
    limits=limits({"memory": "4g", "cpus": "1.5"}),
    settings="/home/me/settings",
    project_file="0123456789abcdef",
)


def compose_of(workspace: Workspace, stack: Stack) -> str:
    return stamped(render_stack_file(TEMPLATES, stack, AGENTS, workspace), comment="#")


def written(workspace: Workspace = OURS) -> dict[str, str]:
    """Return the two files as `init` writes them."""
    stack = replace(stack_of(workspace), pins={name: pin.text for name, pin in PINS.items()})
    compose = compose_of(workspace, stack)
    return {STACK: compose, RECORD: record_text(record_of(stack, workspace, PINS), compose)}


FILES = written()
OURS_RECORD = record_of(stack_of(OURS), OURS, PINS)
UNMASKED = FILES[STACK].replace("target: /workspace/.env,", "target: /workspace/.other,")


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, str]:
    """Return the files with another record, which still names the digest of the compose file."""
    said = json.loads(FILES[RECORD])
    change(said)
    return FILES | {RECORD: json.dumps(said, indent=2) + "\n"}


def test_a_record_is_read_as_it_was_written() -> None:
    assert recorded(FILES, ROOT) == OURS_RECORD
    assert OURS_RECORD == Record(
        name=stack_of(OURS).name,
        agents=("claude",),
        pins=PINS,
        title="A $5 app",
        ide=Ide.JETBRAINS,
        owner=Owner(uid=501, gid=20),
        limits=limits({"memory": "4g", "cpus": "1.5"}),
        settings=True,
        dotenv=True,
        project_file="0123456789abcdef",
        facts=OURS_RECORD.facts,
    )


@each("workspace", [WORKSPACE, OURS, replace(OURS, dotenv=False, in_volume=True, project_file="", settings=None)])
def test_the_compose_file_of_an_earlier_version_gives_the_same_record(workspace: Workspace) -> None:
    files = written(workspace)
    assert recorded({STACK: files[STACK]}, ROOT) == recorded(files, ROOT) == imported(files[STACK], ROOT)
    require_true(files, ROOT)


def test_a_record_holds_whatever_line_ends_git_writes() -> None:
    crlf = {path: text.replace("\n", "\r\n") for path, text in FILES.items()}
    assert recorded(crlf, ROOT) == OURS_RECORD


def test_what_would_run_decides_if_the_compose_file_was_edited() -> None:
    assert UNMASKED != FILES[STACK]
    files = FILES | {STACK: UNMASKED}
    assert ".env" in facts_said(FILES, ROOT).protected
    assert recorded(files, ROOT).facts.protected == facts_said(files, ROOT).protected == {".devcontainer", ".other"}
    require_true(files, ROOT)


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "`protected`": lambda said: said["facts"]["protected"].append(".git/hooks"),
    "`masked`": lambda said: said["facts"].update(masked=["secret.txt"]),
    "`in_volume`": lambda said: said["facts"].update(in_volume=True),
    "`images`": lambda said: said["facts"]["images"].pop(),
    "`agents`": lambda said: said.update(agents=["codex"]),
    "`limits`": lambda said: said.update(limits={"memory": "6g"}),
    "`name`, `owner`": lambda said: said.update(name="other-1", owner={"uid": 0, "gid": 0}),
}


@pytest.mark.parametrize("says", FORGED)
def test_trust_refuses_a_record_that_says_otherwise_than_the_compose_file_that_would_run(says: str) -> None:
    def change(said: dict[str, Any]) -> None:
        FORGED[says](said)
        said["facts"] = {key: said["facts"][key] for key in Facts.__struct_fields__ if key in said["facts"]}

    with pytest.raises(UserError) as raised:
        require_true(edited(change), ROOT)
    assert str(raised.value) == (
        f"{ROOT}/{RECORD}: says otherwise than docker-compose.yml beside it: {says}; agent-sandbox init writes it again"
    )


NOT = "not a valid record: "
SIZE = "memory: `much` is not a size: a number with k, m or g, as in `4g`"
DEEP = '{"facts": {"protected": ' + "[" * 50_000
DAMAGED: list[tuple[dict[str, str], str]] = [
    (edited(lambda said: said.update(agnets=[])), "unknown key `agnets`; did you mean `agents`?"),
    (edited(lambda said: said["facts"].update(maskd=[])), "unknown key `maskd`; did you mean `masked`?"),
    (edited(lambda said: said["owner"].update(x=1)), "unknown key `x`"),
    (edited(lambda said: said.pop("dotenv")), f"{NOT}Object missing required field `dotenv`"),
    (edited(lambda said: said.update(settings="true")), f"{NOT}Expected `bool`, got `str` - at `$.settings`"),
    (edited(lambda said: said.update(version=VERSION + 1)), "not as agent-sandbox writes it"),
    (edited(lambda said: said.update(name="../../app")), "not as agent-sandbox writes it"),
    (edited(lambda said: said.update(agents=[])), "not as agent-sandbox writes it"),
    (edited(lambda said: said.update(owner={"uid": -1, "gid": 0})), "not as agent-sandbox writes it"),
    (edited(lambda said: said.update(pins={"claude": "latest"})), "not as agent-sandbox writes it"),
    (edited(lambda said: said.update(limits={"memory": "much"})), f"`limits` is not valid: {SIZE}"),
    (FILES | {RECORD: FILES[RECORD].replace('"title"', '"title": "x",\n  "title"')}, "not as agent-sandbox writes it"),
    (FILES | {RECORD: FILES[RECORD].replace("\n", " ")}, "not as agent-sandbox writes it"),
    (FILES | {RECORD: DEEP}, f"{NOT}Expected `str`, got `array` - at `$.facts.protected[0]`"),
    (FILES | {RECORD: ""}, f"{NOT}Input data was truncated"),
    (FILES | {RECORD: "\udcff"}, f"{NOT}JSON is malformed: invalid character (byte 0)"),
]  # fmt: skip


@each("files, what", DAMAGED)
def test_refuses_a_record_that_is_not_exactly_as_it_is_written(files: dict[str, str], what: str) -> None:
    for read in (recorded, facts_said, require_true):
        with pytest.raises(UserError) as raised:
            read(files, ROOT)
        assert str(raised.value) == f"{ROOT}/{RECORD}: {what}; agent-sandbox init writes it again"
    # `init` writes it again, from what the compose file says.
    assert known(files) == OURS_RECORD


@each(
    "text",
    [
        "",
        "services: {}\n",
        FILES[STACK].split("\n", 2)[2],
        FILES[STACK].replace("x-agent-sandbox", "x-other"),
        FILES[STACK].replace("ide: jetbrains", "ide: emacs"),
        FILES[STACK].replace('dev: "501:20"', "dev: me"),
        FILES[STACK].replace("memory: 4g", "memory: all"),
        f"{FILES[STACK]}: [",
        stamped("- a list\n", comment="#"),
        stamped("", comment="#"),
    ],
)
def test_a_compose_file_that_is_not_ours_has_no_record(text: str) -> None:
    assert known({STACK: text}) is None
    assert uses_dotenv({STACK: text})


def test_a_stack_without_limits_has_the_default_ones() -> None:
    assert recorded(written(WORKSPACE), ROOT).limits == DEFAULT


def test_a_stack_without_a_dotenv_has_that_in_its_record() -> None:
    files = written(replace(OURS, dotenv=False))
    assert (uses_dotenv(FILES), uses_dotenv(files), uses_dotenv({STACK: files[STACK]})) == (True, False, False)
    assert not uses_dotenv(files | {STACK: f"{files[STACK]}# mine\n"})
    assert uses_dotenv({STACK: files[STACK].split("\n", 2)[2]})  # not ours, without the header
