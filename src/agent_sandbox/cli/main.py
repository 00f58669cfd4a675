"""Typer's side of the command table: only the command that is asked for is imported."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer

from agent_sandbox.cli import fast
from agent_sandbox.cli.commands import COMMANDS, GROUPS, PROGRAM, SUMMARY, load
from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.output import emit

CONTEXT = {"help_option_names": ["-h", "--help"]}


def run(argv: Sequence[str]) -> NoReturn:
    """Parse the arguments, run the command and leave with its exit code."""
    build_app(argv)(args=list(argv), prog_name=PROGRAM)
    raise SystemExit(0)


def build_app(argv: Sequence[str]) -> typer.Typer:
    """Return the app in which the command that `argv` names is real and every other one is a name with its help."""
    app = _app(SUMMARY)
    app.callback()(root)
    for name, text in COMMANDS.items():
        _register(app, (name,), text, wanted=tuple(argv[:1]))
    for group, (text, commands) in GROUPS.items():
        inner = _app(text)
        for name, line in commands.items():
            _register(inner, (group, name), line, wanted=tuple(argv[:2]))
        app.add_typer(inner, name=group)
    return app


def root(
    *,
    version: Annotated[bool, typer.Option("--version", help=fast.ROOT_OPTIONS["--version"], is_eager=True)] = False,
) -> None:
    """Answer `--version` where it stands beside other arguments."""
    if version:
        emit(fast.VERSION)
        raise typer.Exit


def _app(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )


def _register(app: typer.Typer, path: tuple[str, ...], text: str, *, wanted: tuple[str, ...]) -> None:
    name = path[-1]
    module = load(*path) if path == wanted else None
    function = getattr(module, name) if module else _unasked
    app.command(name, short_help=text, context_settings=_context(module))(_guarded(function))


def _context(module: ModuleType | None) -> dict[str, Any]:
    extra: Mapping[str, Any] = getattr(module, "CONTEXT", {})
    return {**CONTEXT, **extra}


def _guarded(function: Callable[..., int | None]) -> Callable[..., NoReturn]:
    """Wrap a command so that what it raises becomes an exit code before typer can have an opinion on it."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401 - the command's own signature
        raise typer.Exit(exit_code(lambda: function(*args, **kwargs)))

    return guarded


def _unasked() -> None:
    """Stand in for a command that is not being run."""
