"""The plain options that several commands share, each said once."""

from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.framework.parameters import Argument, Option

ProjectPath = Annotated[
    Path | None,
    Option(help="The project's directory; otherwise the one that this directory lies in.", metavar="DIRECTORY"),
]
PolicyArgument = Annotated[Path | None, Argument(help="The policy; otherwise the project's.")]
PolicyOption = Annotated[Path | None, Option(help="The policy; otherwise the project's.")]
Json = Annotated[bool, Option(help="Print JSON for a program.", name="--json")]
Yes = Annotated[
    str,
    Option(help="Say yes to the project's settings if this is their fingerprint, unasked.", metavar="FINGERPRINT"),
]
DryRun = Annotated[bool, Option(help="Print what would be done, and do nothing.")]
