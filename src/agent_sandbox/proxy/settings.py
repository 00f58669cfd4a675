"""What `run` was told."""

import re
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.policyfile import LayerFile, layer_beside
from agent_sandbox.policyfile.layerfile import BESIDE
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.overrides import Override

SHAPE = re.compile(r"(?P<host>[^:\[\]]+|\[[^]]+]):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to listen, what to enforce, where to keep things."""

    policy: Path
    policy_name: str = ""
    layers: tuple[LayerFile, ...] = ()
    listen: tuple[str, int]
    state: Path
    upstream_ca: Path | None = None
    overrides: tuple[Override, ...] = ()

    @property
    def control(self) -> Path:
        """The control socket."""
        return self.state / "run" / "control.sock"

    @property
    def log(self) -> Path:
        """The traffic log."""
        return self.state / "log" / "traffic.jsonl"

    @property
    def certificate(self) -> Path:
        """The public certificate of the CA."""
        return self.state / "ca" / "ca.crt"


def parse_address(text: str, *, option: str) -> tuple[str, int]:
    """Parse ADDR:PORT.

    >>> parse_address("127.0.0.1:0", option="--listen")
    ('127.0.0.1', 0)
    """
    found = SHAPE.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UserError([Problem(where=f"{option} {text}", what="not ADDR:PORT", hint="such as 127.0.0.1:8080")])
    return found["host"].strip("[]"), int(found["port"])


def parse_layer(text: str) -> LayerFile:
    """Parse NAME=FILE.

    >>> parse_layer("organisation=/etc/agent-sandbox/policy.yaml").tighten
    True
    """
    name, _, path = text.partition("=")
    if name not in BESIDE or not path:
        raise UserError([Problem(where=f"--layer {text}", what="not NAME=FILE", hint=f"names are {', '.join(BESIDE)}")])
    return layer_beside(name, Path(path).absolute())
