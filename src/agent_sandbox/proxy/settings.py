"""The options of `run`, parsed."""

from pathlib import Path

from msgspec import Struct

from agent_sandbox.policyfile import LayerFile, layer_beside
from agent_sandbox.policyfile.layer_file import BESIDE
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.net.address import Place
from agent_sandbox.proxy.upstream.overrides import Override


class Entrances(Struct, frozen=True, kw_only=True):
    """Addresses of the transparent proxy (TLS, plain HTTP) and of the DNS server. None disables one."""

    tls: Place | None = None
    http: Place | None = None
    dns: Place | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """Addresses to listen at, the policy to enforce, and the directory for state."""

    policy: Path
    policy_name: str = ""
    layers: tuple[LayerFile, ...] = ()
    listen: Place
    state: Path
    upstream_ca: Path | None = None
    overrides: tuple[Override, ...] = ()
    entrances: Entrances = Entrances()

    @property
    def trusted(self) -> tuple[Path, ...]:
        """Files of CA certificates to trust in addition."""
        return (self.upstream_ca,) if self.upstream_ca else ()

    @property
    def control(self) -> Path:
        """The control socket."""
        return self.state / "run" / "control.sock"

    @property
    def log(self) -> Path:
        """The audit log."""
        return self.state / "log" / "traffic.jsonl"

    @property
    def compiled(self) -> Path:
        """The policy cache."""
        return self.state / "private" / "compiled"

    @property
    def budgets(self) -> Path:
        """The file with the use of the budgets."""
        return self.state / "private" / "budgets.json"

    @property
    def folder(self) -> Path:
        """The file of `SourcePin`."""
        return self.state / "private" / "folder.json"

    @property
    def certificate(self) -> Path:
        """The CA certificate."""
        return self.state / "ca" / "ca.crt"

    @property
    def secrets(self) -> Path:
        """The secret store."""
        return self.state / "secrets"

    @property
    def environment(self) -> Path:
        """The placeholders of secrets as variables, in the directory that all containers see."""
        return self.state / "ca" / "placeholders.sh"

    @property
    def git_settings(self) -> Path:
        """The settings of git for signed commits, in the same directory."""
        return self.state / "ca" / "gitconfig"


def parse_layer(text: str) -> LayerFile:
    """Parse NAME=FILE.

    >>> parse_layer("organisation=/etc/agent-sandbox/policy.yaml").tighten
    True
    """
    name, _, path = text.partition("=")
    if name not in BESIDE or not path:
        raise UserError([Problem(where=f"--layer {text}", what="not NAME=FILE", hint=f"names are {', '.join(BESIDE)}")])
    return layer_beside(name, Path(path).absolute())
