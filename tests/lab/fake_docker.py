"""A `docker` for tests without an engine: a real program on PATH with configured answers."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(slots=True)
class FakeDocker:
    """Answers with the first rule whose words are in the arguments; any other command is an error."""

    folder: Path
    rules: list[str] = field(default_factory=list)
    program: str = "docker"

    def says(self, words: str, *, out: str = "", err: str = "", code: int = 0, script: str = "") -> "FakeDocker":
        """Answer any command whose arguments hold `words`; `script` is shell that runs first."""
        # The shell's own words: a `cat` for each would be two more programs, and hundreds of tests ask.
        answer = f"printf %s {shlex.quote(out)}; printf %s {shlex.quote(err)} >&2; exit {code}"
        self.rules.append(f"*{shlex.quote(words)}*) {script or ':'}\n    {answer} ;;")
        self._write()
        return self

    @property
    def calls(self) -> list[str]:
        """The arguments of the calls so far, one line each."""
        log = self.folder / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def _write(self) -> None:
        body = "\n  ".join(self.rules)
        program = self.folder / self.program
        program.write_text(
            f"#!/bin/sh\nPATH=/usr/bin:/bin\nprintf '%s\\n' \"$*\" >>{self._quoted('calls')}\n"
            f'case "$*" in\n  {body}\nesac\necho "fake {self.program}: nothing to say to: $*" >&2\nexit 99\n'
        )
        program.chmod(0o755)

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self.folder / name))


@pytest.fixture
def docker(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Put a fake `docker` on PATH, and no other program."""
    folder = tmp_path_factory.mktemp("fake-docker")
    monkeypatch.setenv("PATH", str(folder))
    return FakeDocker(folder).says("fake docker has no rule yet")
