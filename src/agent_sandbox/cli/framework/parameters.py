"""Declare a command's parameters without typer: `name: Annotated[TYPE, Option(help=...)] = DEFAULT`.

`arg_parser.py` parses simple cases from it; `main.py` passes it to typer for all others and for help.
Importing typer and pydantic takes ten times as long as starting Python.
"""

from msgspec import Struct


class Argument(Struct, frozen=True, kw_only=True):
    """A positional argument, which may be a list; `metavar` names one, by default the parameter."""

    help: str
    metavar: str = ""


class Option(Struct, frozen=True, kw_only=True):
    """An option, named after its parameter unless `name` is set.

    `short` is another spelling, such as `-q`. `metavar` is the placeholder for its value in the help: by default FILE
    for a path, else the parameter's name. `envvar` is the environment variable that sets it if the option is not given.
    `least` is the smallest number that it accepts.
    """

    help: str
    name: str = ""
    short: str = ""
    metavar: str = ""
    envvar: str = ""
    least: int | None = None

    def spelled(self, parameter: str) -> str:
        """Return the option as typed.

        >>> Option(help="").spelled("dry_run"), Option(help="", name="--json").spelled("as_json")
        ('--dry-run', '--json')
        """
        return self.name or f"--{parameter.replace('_', '-')}"

    def words(self, parameter: str) -> tuple[str, ...]:
        """Return all spellings.

        >>> Option(help="", short="-q").words("quiet")
        ('--quiet', '-q')
        """
        return (self.spelled(parameter), *((self.short,) if self.short else ()))
