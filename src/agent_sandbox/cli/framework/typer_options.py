"""The shared options that need typer: a short name, a variable of the environment, a bound."""

from pathlib import Path
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but what went wrong.")]
Following = Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")]
Tail = Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only so many of the last lines.", metavar="N")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Build every step anew.")]
BaseImage = Annotated[
    str,
    typer.Option(
        "--base-image",
        envvar="AGENT_SANDBOX_BASE_IMAGE",
        help="The Debian that the images start from.",
        metavar="IMAGE",
    ),
]
ExtraCa = Annotated[
    Path | None,
    typer.Option(
        "--extra-ca",
        envvar="AGENT_SANDBOX_EXTRA_CA",
        help="A CA to trust while building, where a company's proxy intercepts TLS; it is in no image.",
        metavar="FILE",
    ),
]
