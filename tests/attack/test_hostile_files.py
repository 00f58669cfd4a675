"""Our commands in a hostile project: no file makes a command hang or crash."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from run_cli import Ask, ask, empty_project

__all__ = ["ask", "empty_project"]

COMPOSE, EDITOR, POLICY, RECORD = (
    f".devcontainer/{name}" for name in ("docker-compose.yml", "devcontainer.json", "policy.yaml", "stack.json")
)
NINES = "9" * 5_000
# Nine levels of nine aliases are 387 million values if all are visited.
LEVELS = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A change to one file, and the first error line of each command that reads it."""

    file: str
    change: Callable[[str], str]
    says: Mapping[str, str] = field(default_factory=dict)


def member(text: str) -> Callable[[str], str]:
    return lambda before: before.replace("{\n", f"{{\n  {text},\n", 1)


def added(text: str) -> Callable[[str], str]:
    return lambda before: before + text


def everywhere(says: str) -> dict[str, str]:
    return {"trust": says, "up": says, "proxy reload": says}


ATTACKS = {
    "an integer of 5,000 digits": Attack(
        file=EDITOR,
        change=member(f'"x": {NINES}'),
        says={"init": f"error: {EDITOR}:5:8: a number with too many digits"},
    ),
    "a number beyond all floats": Attack(
        file=EDITOR, change=member('"x": 1e999'), says={"init": f"error: {EDITOR}:5:8: a number that is too large"}
    ),
    "lists of lists in the editor's file": Attack(
        file=EDITOR,
        change=member(f'"x": {"[" * 100_000}'),
        says={"init": f"error: {EDITOR}:5:108: more than 100 levels"},
    ),
    "half of a surrogate pair": Attack(file=EDITOR, change=member(r'"x": "\ud800"')),
    "aliases of aliases": Attack(
        file=COMPOSE,
        change=added(f"x-a:\n  a0: &a0 [x]\n{LEVELS}"),
        says=everywhere(f"error: {{root}}/{COMPOSE}:{{line}}:12: an alias (`*a0`)"),
    ),
    "an alias to what holds it": Attack(
        file=COMPOSE,
        change=added("x-a: &a [*a]\n"),
        says=everywhere(f"error: {{root}}/{COMPOSE}:{{end}}:10: an alias (`*a`)"),
    ),
    "lists of lists in the stack": Attack(
        file=COMPOSE,
        change=added(f"x-a: {'[' * 100_000}"),
        says=everywhere(f"error: {{root}}/{COMPOSE}:{{end}}:37: this is more than 32 levels deep"),
    ),
    "half a million values": Attack(file=COMPOSE, change=added(f"x-a: [{'a,' * 500_000}]\n"), says={}),
    "an owner of 5,000 digits": Attack(
        file=COMPOSE,
        change=lambda before: before.replace('dev: "', f'dev: "{NINES}'),
        says={},
    ),
    "a limit of 5,000 digits": Attack(
        file=COMPOSE,
        change=lambda before: before.replace("x-agent-sandbox:", f"x-agent-sandbox:\n  limits: {{memory: {NINES}g}}"),
    ),
    "a record of a protection that the compose file lacks": Attack(
        file=RECORD,
        change=lambda before: before.replace('"protected": [', '"protected": [\n      ".a",'),
        says=everywhere(f"error: {{root}}/{RECORD}: says otherwise than docker-compose.yml beside it: `protected`"),
    ),
    "a record of a clone in a volume, of which nothing could be written": Attack(
        file=RECORD,
        change=lambda before: before.replace('"in_volume": false', '"in_volume": true'),
        says=everywhere(f"error: {{root}}/{RECORD}: says otherwise than docker-compose.yml beside it: `in_volume`"),
    ),
    "a record that says two things": Attack(
        file=RECORD,
        change=lambda before: before.replace('"dotenv": true', '"dotenv": false,\n  "dotenv": true'),
        says=everywhere(f"error: {{root}}/{RECORD}: not as agent-sandbox writes it"),
    ),
    "a record of lists of lists": Attack(
        file=RECORD,
        change=lambda before: before.replace('"masked": []', f'"masked": {"[" * 100_000}'),
        says=everywhere(
            f"error: {{root}}/{RECORD}: not a valid record: Expected `str`, got `array` - at `$.facts.masked[0]`"
        ),
    ),
    "a record with a key of 100,000 letters": Attack(
        file=RECORD,
        change=lambda before: before.replace('"version"', f'"{"v" * 100_000}"'),
        says=everywhere(f"error: {{root}}/{RECORD}: unknown key `{'v' * 40}`"),
    ),
    "a stack of 30,000 files": Attack(
        file=".env",
        change=lambda _: f"COMPOSE_FILE={':'.join([COMPOSE] * 30_000)}\n",
        says=everywhere("error: {root}/.env: `COMPOSE_FILE` names 30000 files; at most 32 are allowed"),
    ),
    "bytes that are no text": Attack(file=POLICY, change=lambda _: "\udcff"),
    "a policy of lists of lists": Attack(file=POLICY, change=lambda _: "[" * 100_000),
    "a version of 5,000 digits": Attack(file=POLICY, change=lambda _: f"version: {NINES}\n"),
    "aliases in a policy": Attack(file=POLICY, change=lambda _: f"domains_file: x\nx:\n  a0: &a0 [x]\n{LEVELS}"),
    "a port of 5,000 digits": Attack(
        file="package-lock.json", change=lambda _: f'"resolved": "https://a.example:{NINES}/"'
    ),
}
COMMANDS = (
    "init",
    "init --dry-run --detect",
    "trust",
    "trust --json",
    "up",
    "proxy reload",
    "policy check",
    "policy lint",
)


@pytest.mark.parametrize("name", ATTACKS)
def test_commands_report_hostile_project_files_without_crashing(
    name: str, empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{empty_project}/nowhere")
    assert ask("init", "claude").code == 0
    attack = ATTACKS[name]
    file = empty_project / attack.file
    before = file.read_text() if file.exists() else ""
    after = attack.change(before)
    lines = before.count("\n")
    known = {"root": str(empty_project.resolve()), "line": str(lines + 3), "end": str(lines + 1)}
    for command in COMMANDS:
        file.write_text(after, errors="surrogateescape")  # again: `init` writes its own files anew
        answer = ask(*command.split())
        assert answer.code in {0, 1}, (command, answer.err)
        expected = attack.says.get(command)
        if expected is not None:
            assert answer.code == 1
            assert answer.err.splitlines()[0] == expected.format(**known), command
