"""No text tells users to install agent-sandbox from a package index.

Nothing is published yet, and `agent-sandbox` on the public Python index belongs to another project: a user who follows
such an instruction runs a stranger's code. We will publish as `agent-sandbox-cli`; until then anyone could take that
name. A checkout (`pipx install .`) and a URL are fine.
"""

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from agent_sandbox import __version__

ROOT = Path(__file__).resolve().parents[2]
LIKE_OURS = re.compile(r"agent-sandbox(?:-.+)?")
DISTRIBUTION = "agent-sandbox-cli"
# Add DISTRIBUTION here once it is published.
PUBLISHED: frozenset[str] = frozenset()

INSTALLER = re.compile(
    r"\b(?P<tool>pipx?[\d.]*|uvx?|poetry|pdm)[ \t]+"
    r"(?P<rest>[^\n`&;|#]*)"
)
VERBS = {"install", "inject", "run", "runpip", "add", "download", "wheel", "tool", "pip"}
SOURCE = re.compile(r"--(?:from|spec)[= ](\S+)")
NAME = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?(?:(?:[=<>!~]=?|@).*)?")


def installed_from_an_index(text: str) -> list[str]:
    """Return each command in the text that would install our name from a package index."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [match[0].strip() for match in INSTALLER.finditer(joined) if _takes_our_name(match["tool"], match["rest"])]


def _takes_our_name(tool: str, rest: str) -> bool:
    options = " ".join(re.sub(r"\s*@\s*(?=\S+://)", "@", rest).replace("'", "").replace('"', "").split())
    if named := SOURCE.search(options):
        options = f"install {named[1]}"
    words = [word.strip(",.;:()") for word in options.split()]
    if tool != "uvx" and not VERBS & set(words[:2]):
        return False
    return any(LIKE_OURS.fullmatch(_distribution(word)) for word in words)


def _distribution(word: str) -> str:
    """Return the normalised name that a requirement asks an index for; empty for a path or a URL."""
    found = NAME.fullmatch(word)
    name = re.sub(r"[-_.]+", "-", found["name"]).lower() if found and "://" not in word else ""
    return "" if name in PUBLISHED else name


def documents() -> list[Path]:
    """Return everything in git that a user may read: pages, messages, templates, images; not the tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".", ":!tests", ":!requirements"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_document_installs_agent_sandbox_from_a_package_index() -> None:
    found = {
        str(path.relative_to(ROOT)): commands
        for path in documents()
        if (commands := installed_from_an_index(path.read_text("utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "command",
    [
        "pip install agent-sandbox",
        "$ pip3 install --upgrade agent-sandbox==0.1.0  # the command",
        "python3 -m pip install agent_sandbox",
        "pip install 'agent-sandbox[proxy]>=0.1'",
        "pip download Agent.Sandbox",
        "pip install rich agent-sandbox",
        "pip install \\\n    agent-sandbox",
        "pipx install agent-sandbox",
        "pipx run agent-sandbox init claude",
        "pipx inject other 'agent-sandbox[proxy]'",
        "pipx run --spec agent-sandbox==0.1.0 agent-sandbox",
        "uvx agent-sandbox",
        "uvx agent-sandbox-cli up",
        "pipx install agent-sandbox-cli",
        "pip install agent-sandbox-tools",
        "uvx agent-sandbox@latest up",
        "uvx --from 'agent-sandbox[proxy]' agent-sandbox",
        "uv tool install agent-sandbox",
        "uv tool run agent-sandbox",
        "uv pip install agent-sandbox",
        "uv add agent-sandbox",
        "uv run --with agent-sandbox agent-sandbox up",
        "poetry add agent-sandbox",
        "pdm add agent-sandbox",
        "Use `pipx install agent-sandbox`, then run it.",
        "hint: pipx install 'agent-sandbox[proxy]', or another",
    ],
)
def test_finds_install_from_an_index_in_every_spelling(command: str) -> None:
    assert installed_from_an_index(command)


@pytest.mark.parametrize(
    "command",
    [
        "pipx install .  # the command `agent-sandbox`",
        "pipx install '.[proxy]'",
        "pipx install ./agent-sandbox",
        "pip install git+https://github.com/OWNER/agent-sandbox@v0.1.0",
        "pip install 'agent-sandbox-cli @ git+https://github.com/OWNER/agent-sandbox'",
        "uvx --from git+https://github.com/OWNER/agent-sandbox agent-sandbox up",
        "uvx --from . agent-sandbox up",
        "pipx run --spec . agent-sandbox up",
        "pip install agent-sandboxes",
        "pip install hello && agent-sandbox up",
        "Run `pipx install .` and then `agent-sandbox up`.",
        "what pip fetches through agent-sandbox",
        "agent-sandbox run -- --help",
    ],
)
def test_accepts_install_from_a_checkout_or_a_url(command: str) -> None:
    assert not installed_from_an_index(command)


def test_the_distribution_is_agent_sandbox_cli_and_the_command_is_agent_sandbox() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], list(project["scripts"])) == (DISTRIBUTION, ["agent-sandbox"])
    assert project["entry-points"]["pipx.run"] == {DISTRIBUTION: project["scripts"]["agent-sandbox"]}
    installed = metadata.distribution(DISTRIBUTION)
    assert installed.version == __version__
    assert {entry.name for entry in installed.entry_points.select(group="console_scripts")} == {"agent-sandbox"}
