"""The options of `init` and `run` that shape a new stack."""

from typing import Annotated

from typer import Option

from agent_sandbox.projectfile.languages import LANGUAGES

Languages = Annotated[
    str | None,
    Option(
        "--with",
        help=f"Languages to install, such as node,go: {', '.join(LANGUAGES)}. A new project gets those of its files.",
    ),
]
NoDetect = Annotated[bool, Option(help="Ignore package.json, pyproject.toml and so on: add no services or languages.")]
Provider = Annotated[str | None, Option(help="The model provider to allow, for an agent that works with several.")]
