"""The options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.projectfile.languages import LANGUAGES

ProjectPath = Annotated[
    Path | None,
    Option(
        help="The project's directory, or the name of a stack or clone; by default the project around this directory.",
        metavar="DIRECTORY",
    ),
]
PolicyArgument = Annotated[Path | None, Argument(help="The policy file; by default the project's.")]
PolicyOption = Annotated[Path | None, Option(help="The policy file; by default the project's.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Yes = Annotated[
    str,
    Option(help="Trust the project's settings without asking if this is their fingerprint.", metavar="FINGERPRINT"),
]
DryRun = Annotated[bool, Option(help="Print what would be done, without doing it.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only errors.")]
Following = Annotated[bool, Option("--follow", "-f", help="Keep printing new lines.")]
Tail = Annotated[int | None, Option("--tail", "-n", help="Print only the last N lines.", metavar="N", min=0)]
# For `policy allow` and `policy deny`.
RuleUrl = Annotated[str | None, Argument(help="The URL, if RULE is only the method.")]
NoReload = Annotated[bool, Option(help="Only edit the file: the running proxy keeps the policy that it has.")]
NoCache = Annotated[bool, Option(help="Build every step again, without the cache.")]
ExtraCa = Annotated[
    Path | None,
    Option(
        help="A CA to trust during the build, for an upstream proxy that intercepts TLS; no image contains it. By "
        "default the `ca` of your own policy, which requests trust, too.",
        metavar="FILE",
        envvar="AGENT_SANDBOX_EXTRA_CA",
    ),
]
# What shapes a new stack, for `init` and `run`.
Languages = Annotated[
    str | None,
    Option(
        "--with",
        help=f"Languages to install, such as node,go: {', '.join(LANGUAGES)}. A new project gets those of its files.",
    ),
]
NoDetect = Annotated[bool, Option(help="Ignore package.json, pyproject.toml and so on: add no services or languages.")]
Provider = Annotated[str | None, Option(help="The model provider to allow, for an agent that works with several.")]
