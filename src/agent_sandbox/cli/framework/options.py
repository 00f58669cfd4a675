"""The simple options that several commands share."""

from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.framework.parameters import Argument, Option

ProjectPath = Annotated[
    Path | None,
    Option(
        help="The project's directory, or its stack's name; by default the project that contains this directory.",
        metavar="DIRECTORY",
    ),
]
PolicyArgument = Annotated[Path | None, Argument(help="The policy file; by default the project's.")]
PolicyOption = Annotated[Path | None, Option(help="The policy file; by default the project's.")]
Json = Annotated[bool, Option(help="Print JSON.", name="--json")]
Yes = Annotated[
    str,
    Option(help="Trust the project's settings without asking if this is their fingerprint.", metavar="FINGERPRINT"),
]
DryRun = Annotated[bool, Option(help="Print what would be done, without doing it.")]
