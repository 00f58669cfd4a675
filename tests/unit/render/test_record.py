from msgspec.structs import replace

from agent_sandbox.backends.compose.render import render_stack_file
from agent_sandbox.render.formats.header import stamped
from agent_sandbox.render.record import Record, parse_record, uses_dotenv
from agent_sandbox.stack.limits import DEFAULT, limits
from agent_sandbox.stack.recorded import Ide, Owner
from sample_project import AGENTS, TEMPLATES, WORKSPACE, stack_of
from table_tests import each

LIMITS = limits({"memory": "4g", "cpus": "1.5"})
OURS = replace(
    WORKSPACE,
    title="A $5 app",
    ide=Ide.JETBRAINS,
    owner=Owner(uid=501, gid=20),
    limits=limits({"memory": "4g", "cpus": "1.5"}),
)
TEXT = stamped(render_stack_file(TEMPLATES, stack_of(OURS), AGENTS, OURS), comment="#")


RECORD = Record(
    project_file="",
    name=stack_of(OURS).name,
    agents=("claude",),
    title="A $5 app",
    ide=Ide.JETBRAINS,
    owner=Owner(uid=501, gid=20),
    limits=LIMITS,
    dotenv=True,
)


def test_parses_the_record_of_a_rendered_stack_file() -> None:
    assert parse_record(TEXT) == RECORD


def test_parses_the_record_of_an_edited_stack_file() -> None:
    assert parse_record(f"{TEXT}\n# mine\n") == parse_record(TEXT)


@each(
    "text",
    [
        "",
        "services: {}\n",
        TEXT.split("\n", 2)[2],
        TEXT.replace("x-agent-sandbox", "x-other"),
        TEXT.replace("ide: jetbrains", "ide: emacs"),
        TEXT.replace('dev: "501:20"', "dev: me"),
        TEXT.replace("memory: 4g", "memory: all"),
        f"{TEXT}: [",
        stamped("- a list\n", comment="#"),
        stamped("", comment="#"),
    ],
)
def test_returns_none_for_a_missing_or_invalid_record(text: str) -> None:
    assert parse_record(text) is None


def test_a_record_without_limits_has_the_default_limits() -> None:
    record = parse_record(stamped(render_stack_file(TEMPLATES, stack_of(), AGENTS, WORKSPACE), comment="#"))
    assert record is not None
    assert record.limits == DEFAULT


@each("text", ["", "dotenv: [", TEXT, TEXT.replace("ide:", "dotenv: x, ide:")])
def test_a_stack_uses_the_dotenv_by_default(text: str) -> None:
    assert uses_dotenv(text)


def test_a_stack_without_a_dotenv_has_that_in_its_record() -> None:
    without = render_stack_file(TEMPLATES, stack_of(OURS), AGENTS, replace(OURS, dotenv=False))
    text = stamped(without, comment="#")
    assert parse_record(text) == replace(RECORD, dotenv=False)
    assert not uses_dotenv(text)
    assert not uses_dotenv(f"{text}# mine\n")
    assert uses_dotenv(without)  # not ours, without the header
