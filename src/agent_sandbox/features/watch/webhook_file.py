"""The user's file about the webhook: `~/.config/agent-sandbox/webhook.yaml`.

It is never in a project: whoever writes it decides where data is sent, and names a command for the key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import SplitResult

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from agent_sandbox.host.post import EXAMPLE, parse_url
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.host.user_file import read_user_file
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import fits

NAME = "webhook.yaml"
HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def _url(text: str) -> SplitResult:
    url = parse_url(text)
    if url.scheme == "http" and url.hostname not in HERE:
        raise InvalidValue("`http` is only for a receiver on this machine", EXAMPLE)
    return url


class WebhookSpec(BaseModel):
    """The file. `key` is the source of the key that signs, as for a secret."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    url: Annotated[SplitResult, PlainValidator(fits(_url))]
    key: str = Field(min_length=1)
    include: list[Literal["path", "answers"]] = Field(default_factory=list)

    @property
    def shown(self) -> str:
        """The receiver without its path, which is often a credential."""
        return f"{self.url.scheme}://{self.url.netloc}"


def webhook_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file, or None if there is none. One that cannot be read counts as existing."""
    folder = config_directory(environ)
    if folder is None:
        return None
    try:
        (folder / NAME).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass
    return folder / NAME


def read_webhook(file: Path, root: Path) -> WebhookSpec:
    """Return the checked file, for the project in this directory; raise UserError with all problems."""
    return read_user_file(file, root, WebhookSpec)[0]
