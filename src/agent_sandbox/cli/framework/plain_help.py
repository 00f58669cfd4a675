"""Plain help for a command: `METHOD` instead of typer's `{METHOD}` and `METHOD <str>  [required]`.

The error about a missing argument or option ends with its help.
"""

import re
from typing import Any, override

import typer
from typer.core import TyperCommand

BRACES = str.maketrans("", "", "{}")
TYPE = re.compile(r" <.*>$")
# Brackets around a placeholder that already shows what is optional and repeated. Where the dots are depends on typer.
TWICE = re.compile(r"\[(\[.*\])(?:\]\.\.\.|\.\.\.\])")


class PlainCommand(TyperCommand):
    """A command whose help marks only optional arguments, with brackets."""

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
