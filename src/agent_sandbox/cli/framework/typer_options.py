"""The shared options that need typer: short names, environment variables, bounds."""

from pathlib import Path
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Following = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")]
Tail = Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Print only the last N lines.", metavar="N")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Build every step again, without the cache.")]
BaseImage = Annotated[
    str,
    typer.Option(
        "--base-image",
        envvar="AGENT_SANDBOX_BASE_IMAGE",
        help="The Debian image to build on.",
        metavar="IMAGE",
    ),
]
ExtraCa = Annotated[
    Path | None,
    typer.Option(
        "--extra-ca",
        envvar="AGENT_SANDBOX_EXTRA_CA",
        help="A CA to trust during the build, for an upstream proxy that intercepts TLS; no image contains it.",
        metavar="FILE",
    ),
]
