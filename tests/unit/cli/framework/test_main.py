import sys
import types
from collections.abc import Callable

import pytest

from agent_sandbox.cli.framework import main
from agent_sandbox.problems import Problem, UserError


def answer(monkeypatch: pytest.MonkeyPatch, function: Callable[[], object], *argv: str) -> int:
    """Run `version` as if this function were it."""
    module = types.ModuleType("agent_sandbox.cli.version")
    vars(module)["version"] = function
    monkeypatch.setitem(sys.modules, "agent_sandbox.cli.version", module)
    with pytest.raises(SystemExit) as left:
        main.run(["version", *argv])
    return int(left.value.code or 0)


def test_user_errors_exit_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def version() -> None:
        raise UserError([Problem(where="f:1", what="is wrong", hint="mend it"), Problem(where="", what="so is this")])

    assert answer(monkeypatch, version) == 1
    assert capsys.readouterr().err == "error: f:1: is wrong\n  hint: mend it\nerror: so is this\n"


def test_an_unknown_option_exits_with_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(monkeypatch, lambda: None, "--nonsense") == 2
    assert "No such option" in capsys.readouterr().err


def test_a_module_can_change_how_its_arguments_are_parsed() -> None:
    module = types.ModuleType("x")
    vars(module)["CONTEXT"] = {"ignore_unknown_options": True}
    assert main._context(module) == {"help_option_names": ["-h", "--help"], "ignore_unknown_options": True}
    assert main._context(None) == {"help_option_names": ["-h", "--help"]}


def test_imports_only_the_requested_command(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, ...]] = []

    def load(*path: str) -> types.ModuleType:
        loaded.append(path)
        module = types.ModuleType("x")
        setattr(module, path[-1], lambda: None)
        return module

    monkeypatch.setattr(main, "load", load)
    main.build_app(["policy", "check", "--json"])
    assert loaded == [("policy", "check")]
    main.build_app(["nonsense"])
    assert loaded == [("policy", "check")]


def test_a_command_is_found_for_completion() -> None:
    assert main.command_for(("completion",)).name == "completion"
    assert main.command_for(("policy", "check")).name == "check"
