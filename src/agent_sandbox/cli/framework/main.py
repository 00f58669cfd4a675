"""Build typer's app from the command table; import only the command that is run."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NoReturn, get_args, override

import typer
import typer.main
from typer.core import TyperCommand

from agent_sandbox.cli.framework import color_option, static_help
from agent_sandbox.cli.framework.commands import COMMANDS, GROUPS, PROGRAM, SUMMARY, command_path, in_python, load
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.terminal.output import emit
from agent_sandbox.cli.terminal.style import WHENS

CONTEXT = {"help_option_names": ["-h", "--help"]}
BRACES = str.maketrans("", "", "{}")
TYPE = re.compile(r" <.*>$")
# Brackets around a placeholder that already shows what is optional and repeated. Where the dots are depends on typer.
TWICE = re.compile(r"\[(\[.*\])(?:\]\.\.\.|\.\.\.\])")


def run(argv: Sequence[str]) -> NoReturn:
    """Parse the arguments, run the command and exit with its code."""
    build_app(argv)(args=list(argv), prog_name=PROGRAM)
    raise SystemExit(0)


def build_app(argv: Sequence[str]) -> typer.Typer:
    """Return the app for these arguments: only the command that they name, or all commands."""
    path = command_path(argv)
    app = _app(SUMMARY)
    app.callback()(root)
    for name, text in COMMANDS.items():
        if path in ((name,), None):
            _register(app, (name,), text, asked=path is not None)
    for group, (text, commands) in GROUPS.items():
        inner = _app(text)
        for name, line in commands.items():
            if path in ((group, name), None):
                _register(inner, (group, name), line, asked=path is not None)
        app.add_typer(inner, name=group)
    return app


def command_for(path: tuple[str, ...]) -> Any:  # noqa: ANN401 - click's or typer's own class, by version
    """Return one command as click's object."""
    command: Any = typer.main.get_command(build_app(path))
    for name in path:
        command = command.commands[name]
    return command


def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help=static_help.ROOT_OPTIONS["--version"], is_eager=True)
    ] = False,
    color: Annotated[  # noqa: ARG001 - `__main__` takes it away
        str, typer.Option(color_option.OPTION, help=color_option.HELP, metavar="|".join(WHENS), show_default=False)
    ] = "auto",
) -> None:
    """Handle `--version` among other arguments."""
    if version:
        emit(static_help.VERSION)
        raise typer.Exit


def _app(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )


def _register(app: typer.Typer, path: tuple[str, ...], text: str, *, asked: bool) -> None:
    name = path[-1]
    module = load(*path) if asked else None
    function = getattr(module, in_python(name)) if module else _unasked
    app.command(name, cls=PlainCommand, short_help=text, context_settings=_context(module))(_guarded(function))


def _context(module: ModuleType | None) -> dict[str, Any]:
    extra: Mapping[str, Any] = getattr(module, "CONTEXT", {})
    return {**CONTEXT, **extra}


def _guarded(function: Callable[..., int | None]) -> Callable[..., NoReturn]:
    """Wrap a command: turn what it raises into an exit code before typer handles it."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401 - the command's own signature
        raise typer.Exit(exit_code(lambda: function(*args, **kwargs)))

    declared = signature(function)
    parameters = [parameter.replace(annotation=_typers(parameter)) for parameter in declared.parameters.values()]
    guarded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(guarded)["__signature__"] = declared.replace(parameters=parameters)
    return guarded


def _typers(parameter: Parameter) -> Any:  # noqa: ANN401 - an annotation
    """Return a parameter's annotation for typer."""
    match get_args(parameter.annotation):
        case (kind, Argument(help=text, metavar=metavar)):
            return Annotated[
                kind, typer.Argument(help=text, **_choice(kind) | {"metavar": metavar or parameter.name.upper()})
            ]
        case (kind, Option() as option):
            called = {} if kind is bool else {"metavar": option.metavar or _called(kind, parameter.name)}
            bounds = {} if option.least is None else {"min": option.least}
            how = {**called, **_choice(kind), **bounds, "envvar": option.envvar or None}
            return Annotated[kind, typer.Option(*option.words(parameter.name), help=option.help, **how)]
    return parameter.annotation


def _called(kind: Any, name: str) -> str:  # noqa: ANN401 - an annotation
    """Return the placeholder for an option's value in the help."""
    return "FILE" if Path in (kind, *get_args(kind)) else name.upper()


def _choice(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - an annotation
    """Return the parser and metavar for an enum; our own error text, because typer's varies by version."""
    enum = next((one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, Enum)), None)
    if enum is None:
        return {}
    words = [str(one.value) for one in enum]

    def parse(text: str | Enum) -> Enum:
        try:
            return enum(text)
        except ValueError:
            raise typer.BadParameter(f"{str(text)!a} is not one of {', '.join(words)}") from None

    return {"parser": parse, "metavar": "|".join(words)}


def _unasked() -> None:
    """Do nothing: a placeholder for a command that is not run."""


class PlainCommand(TyperCommand):
    """Has plain help: `METHOD` instead of typer's `{METHOD}` and `METHOD <str>  [required]`.

    The error about a missing argument or option ends with its help.
    """

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # The message is empty if a parameter is missing.
            error.message = error.message or getattr(error.param, "help", None) or ""
            raise

    @override
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [TWICE.sub(r"\1", piece.translate(BRACES)) for piece in super().collect_usage_pieces(ctx)]

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        tables: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                tables[parameter.param_type_name].append(record)
        arguments = [
            (TYPE.sub("", name), text.removesuffix("[required]").rstrip()) for name, text in tables["argument"]
        ]
        for title, rows in (("Arguments", arguments), ("Options", tables["option"])):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
