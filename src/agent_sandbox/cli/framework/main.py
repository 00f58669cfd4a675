"""Build typer's app from the command table; import only the command that is run."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, get_args, override

import typer
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from agent_sandbox import __version__
from agent_sandbox.cli.framework import color_option
from agent_sandbox.cli.framework.commands import COMMANDS, GROUPS, PROGRAM, SUMMARY, command_path, in_python, load
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.terminal.output import emit, write_lines
from agent_sandbox.cli.terminal.style import WHENS
from agent_sandbox.cli.terminal.wrapping import NARROWEST

VERSION_HELP = "Print the version and exit."
CONTEXT = {"help_option_names": ["-h", "--help"]}
BRACES = str.maketrans("", "", "{}")
# Brackets around a placeholder that already shows what is optional and repeated. Where the dots are depends on typer.
TWICE = re.compile(r"\[(\[.*\])(?:\]\.\.\.|\.\.\.\])")


def run(argv: Sequence[str]) -> int | None:
    """Parse the arguments, run the command and return its exit code."""
    command: Any = typer.main.get_command(build_app(argv))
    width = max(min(typer.get_terminal_size().columns, 80) - 2, NARROWEST)  # of the help; typer's own is 50 or more
    try:
        code: int | None = command.main([*argv], PROGRAM, standalone_mode=False, terminal_width=width)
    except typer.TyperException as error:
        write_lines(sys.stderr, [_usage_error(error)])
        return error.exit_code
    return code


def _usage_error(error: Any) -> str:  # noqa: ANN401 - typer does not export the class
    """Return typer's text for a usage error, with the nearest options in the words that it has for commands."""
    if near := getattr(error, "possibilities", None):
        error.message, error.possibilities = f"{error.message}. Did you mean {', '.join(map(repr, near))}?", None
    text = StringIO()
    error.show(text)
    return text.getvalue().rstrip("\n")


def build_app(argv: Sequence[str]) -> typer.Typer:
    """Return the app for these arguments: only the command that they name, or all commands."""
    path = command_path(argv)
    app = _app(SUMMARY)
    app.callback()(root)
    _fill(app, (), COMMANDS, path)
    for group, (text, commands) in GROUPS.items():
        inner = _app(text)
        _fill(inner, (group,), commands, path)
        app.add_typer(inner, name=group, short_help=text)  # typer would shorten a longer text
    return app


def command_for(path: tuple[str, ...]) -> Any:  # noqa: ANN401 - click's or typer's own class, by version
    """Return one command as click's object."""
    command: Any = typer.main.get_command(build_app(path))
    for name in path:
        command = command.commands[name]
    return command


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer's own interface
    if asked:
        emit(f"{PROGRAM} {__version__}")
        raise typer.Exit


def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help=VERSION_HELP, is_eager=True, callback=_print_version)
    ] = False,
    color: Annotated[
        str, typer.Option(color_option.OPTION, help=color_option.HELP, metavar="|".join(WHENS), show_default=False)
    ] = "auto",
) -> None:
    """Declare the options of the program itself."""


def _app(text: str) -> typer.Typer:
    return typer.Typer(
        cls=PlainGroup,
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )


def _fill(app: typer.Typer, group: tuple[str, ...], commands: Mapping[str, str], asked: Sequence[str] | None) -> None:
    """Add the command that was asked for, or all commands of a group without importing them."""
    for name, text in commands.items():
        path = (*group, name)
        if asked in (path, None):
            module = load(*path) if asked else None
            function = getattr(module, in_python(name)) if module else _unasked
            app.command(name, cls=PlainCommand, short_help=text, context_settings=_context(module))(_guarded(function))


def _context(module: ModuleType | None) -> dict[str, Any]:
    extra: Mapping[str, Any] = getattr(module, "CONTEXT", {})
    return {**CONTEXT, **extra}


def _guarded(function: Callable[..., int | None]) -> Callable[..., int]:
    """Wrap a command: turn what it raises into an exit code before typer handles it."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - the command's own signature
        return exit_code(lambda: function(*args, **kwargs))

    return guarded


def _unasked() -> None:
    """Do nothing: a placeholder for a command that is not run."""


def _converted(kind: Callable[[Any], object], value: Any, *, param: Any, ctx: Any) -> object:  # noqa: ANN401 - typer's
    """Return the value of a parameter, or the list of its values, by calling its type.

    Typer makes a pydantic validator for each, and importing pydantic takes longer than importing typer.
    """
    try:
        if param.multiple or param.nargs == -1:
            return [kind(word) for word in value or ()]
        return None if value is None else kind(value)
    except ValueError:
        words = ", ".join(one.value for one in param.type_descriptor.choices)
        raise typer.BadParameter(f"{value!a} is not one of {words}", ctx=ctx, param=param) from None


def _plain[Parameters: Iterable[Any]](parameters: Parameters) -> Parameters:
    """Name values as the reference does, give no flag an opposite, and convert simple types without pydantic."""
    for one in parameters:
        declared, is_option = one.type_descriptor, one.param_type_name == "option"
        kind = (get_args(declared.annotation) or (declared.annotation,))[0]
        choices = [choice.value for choice in declared.choices or ()]
        shown = ("|".join(choices) or ("FILE" if kind is Path else "")) if is_option else ""
        one.metavar = one.metavar or shown or one.name.upper()
        one.secondary_opts = []  # no `--no-quiet` beside `--quiet`
        if choices or kind in (bool, str, Path):
            one.get_runtime_param = partial(SimpleNamespace, coerce=partial(_converted, kind))
        if not is_option:
            one.get_help_record = partial(_argument_help, one)
    return parameters


def _argument_help(argument: TyperArgument, ctx: Any) -> tuple[str, str]:  # noqa: ANN401 - typer's own class
    """Return an argument's name and help without typer's type and `[required]`."""
    _, text = TyperArgument.get_help_record(argument, ctx) or ("", "")
    return str(argument.metavar), text.removesuffix("[required]").rstrip()


class PlainGroup(TyperGroup):
    """Converts its options without pydantic."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class PlainCommand(TyperCommand):
    """Has plain help: `METHOD` instead of typer's `{METHOD}` and `METHOD <str>  [required]`.

    The error about a missing argument or option ends with its help.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        _plain(self.params)  # which completion and the reference read

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # The message is empty if a parameter is missing; then typer adds the choices if there are any.
            if not error.message and error.param and not error.param.get_missing_message(ctx):
                error.message = getattr(error.param, "help", None) or ""
            raise

    @override
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [TWICE.sub(r"\1", piece.translate(BRACES)) for piece in super().collect_usage_pieces(ctx)]
