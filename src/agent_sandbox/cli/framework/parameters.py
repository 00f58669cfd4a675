"""How a command says what it takes, without typer: `name: Annotated[TYPE, Option(help=...)] = DEFAULT`.

Said once, read twice: `quick.py` parses the plain cases by it, `main.py` hands it to typer for all others and for help.
Importing typer and the pydantic that it stands on takes ten times as long as starting Python.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word that stands by its place."""

    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A word that stands by its name: that of the parameter, unless another one is given.

    `metavar` is what help calls its value: otherwise FILE for a path, and the parameter's name for all else.
    """

    help: str
    name: str = ""
    metavar: str = ""

    def spelled(self, parameter: str) -> str:
        """Return the option as it is typed.

        >>> Option(help="").spelled("dry_run"), Option(help="", name="--json").spelled("as_json")
        ('--dry-run', '--json')
        """
        return self.name or f"--{parameter.replace('_', '-')}"
