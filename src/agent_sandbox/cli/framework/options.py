"""The options that several commands share."""

from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.framework.parameters import Argument, Option

ProjectPath = Annotated[
    Path | None,
    Option(
        help="The project's directory, or the name of a stack or clone; by default the project around this directory.",
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
Quiet = Annotated[bool, Option(help="Print only errors.", short="-q")]
Following = Annotated[bool, Option(help="Keep printing new lines.", short="-f")]
Tail = Annotated[int | None, Option(help="Print only the last N lines.", short="-n", metavar="N", least=0)]
NoCache = Annotated[bool, Option(help="Build every step again, without the cache.")]
ExtraCa = Annotated[
    Path | None,
    Option(
        help="A CA to trust during the build, for an upstream proxy that intercepts TLS; no image contains it. By "
        "default the `ca` of your own policy, which requests trust, too.",
        envvar="AGENT_SANDBOX_EXTRA_CA",
        metavar="FILE",
    ),
]
