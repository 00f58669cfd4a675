"""The machine of a user who has not installed the sandbox yet, with an engine, a network and an /etc of its own.

Its network has one address, where a container plays every host outside: the user needs no special setting, and no
packet leaves.
"""

import re
import shutil
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import override

from certificates import make_authority
from engine import ROOT, CommandError, agent_sandbox, proxy_image, run
from isolated_engine import Machine
from prepared import build_image
from real_stacks import LAB

IMAGE, IMAGES = "agent-sandbox-test-day", ("base", "claude", "proxy")
CLAUDE = f"{IMAGE}/claude"
ADDRESS = "198.51.100.10"  # of a documentation network
HOSTS = ("api.anthropic.com", "github.com", "api.github.com", "docs.example.net")
TOKEN = "a-token-that-may-push"
HOME = "/home/ann"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
SECONDS = 60
# The marks of a shell that integrates with its terminal: where output begins, the exit code, where the prompt ends.
INTEGRATION = r"""setopt interactive_comments
preexec() { print -n "\e]133;C\a" }
precmd() { print -n "\e]133;D;$?\a" }
PROMPT+=$'%{\e]133;B\a%}'
"""
# What differs from the machine that this runs on is in memory: nothing of it is left.
PREPARE = """\
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/python && mount --bind {python} /run/python
mount -t tmpfs -o mode=755 tmpfs /home
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p {python} {memory}/etc/upper {memory}/etc/work {home}
mount --bind /run/python {python}
mount -t overlay overlay -o lowerdir=/etc,upperdir={memory}/etc/upper,workdir={memory}/etc/work /etc
rm -rf /etc/pip.conf /etc/xdg/pip /etc/npmrc /etc/gitconfig /etc/agent-sandbox /etc/resolv.conf
sed -i '/^[^:]*:[^:]*:1000:/d; /^docker:/d' /etc/passwd /etc/group
echo 'ann:x:1000:1000:Ann:{home}:/usr/bin/zsh' >>/etc/passwd
printf 'ann:x:1000:\\ndocker:x:1001:ann\\n' >>/etc/group
echo 'nameserver {address}' >/etc/resolv.conf
cat {ca} >>{bundle}
ip addr add {address}/32 dev lo
"""
HOME_FILES: Mapping[str, str] = {
    ".gitconfig": """[user]
\tname = Ann
\temail = ann@example.org
[credential]
\thelper = store
""",
    ".git-credentials": f"https://ann:{TOKEN}@github.com\n",
    "token": TOKEN,
    ".zshrc": f"PROMPT='%1~ %# '\n{INTEGRATION}",
    ".config/agent-sandbox/policy.yaml": "version: 1\nsettings: {upstream: {ca: corp-ca.pem}}\n",
    ".config/agent-sandbox/dotfiles/.zshrc": INTEGRATION,
    ".config/agent-sandbox/dotfiles/.gitconfig": """[commit]
\tgpgsign = true
[user]
\tsigningkey = ABCDEF0123456789
""",
    ".config/agent-sandbox/dotfiles/.claude/settings.json": '{"env": {"ANTHROPIC_API_KEY": "sk-ant-placeholder"}}\n',
}
PROJECTS = ("express", "itsdangerous")
PROJECT_FILES: Mapping[str, str] = {
    "itsdangerous/compose.yaml": "services: {db: {image: postgres}}\n",
    "itsdangerous/.env": "POSTGRES_PASSWORD=hunter2\n",
}


class UsersMachine(Machine):
    """The machine of Ann, who is in the group docker, and has projects and a checkout of this repository."""

    def __init__(self, folder: Path) -> None:
        """Start it, with the images, the stand-in internet and Ann's files."""
        self._folder = folder
        self._version = agent_sandbox("--version").stdout.split()[-1]
        build_images()
        self._ca = make_authority(folder, [*HOSTS, *registries()])
        shutil.copytree(download_wheels(), folder / "wheels")
        super().__init__(folder, "--host=unix:///run/docker.sock", "--group=docker")

    @override
    def turn_on(self) -> None:
        super().turn_on()
        self.load(*(f"{IMAGE}/{name}" for name in IMAGES))
        for name in IMAGES:
            self.docker("tag", f"{IMAGE}/{name}", f"agent-sandbox/{name}:{self._version}")
        self._start_outside()
        self._furnish()

    @override
    def start_engine(self) -> None:
        places = {"memory": self._memory, "ca": self._ca, "python": sys.base_prefix}
        self.root(PREPARE.format(**places, address=ADDRESS, bundle=BUNDLE, home=HOME))
        super().start_engine()

    def docker(self, *argv: str) -> str:
        """Run a command of its engine."""
        done = run("docker", "--host", self.host, *argv)
        return done.stdout + done.stderr

    def root(self, script: str) -> None:
        """Run a script on it as root."""
        run(*self._inside, "bash", "-ec", script)

    @property
    def as_ann(self) -> tuple[str, ...]:
        """What precedes a command of Ann's."""
        user = (
            "setpriv",
            "--reuid=1000",
            "--regid=1000",
            "--init-groups",
            "env",
            "-i",
            f"--chdir={HOME}/agent-sandbox",
        )
        environment = {
            "HOME": HOME, "USER": "ann", "SHELL": "/usr/bin/zsh", "LANG": "C.UTF-8", "TZ": "UTC",
            "TERM": "xterm-256color", "PATH": f"{HOME}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            "PIP_CERT": BUNDLE, "GIT_SSL_CAINFO": BUNDLE,
        }  # fmt: skip
        return (*self._inside, *user, *(f"{name}={value}" for name, value in environment.items()))

    def _start_outside(self) -> None:
        lab = self._folder / "lab"
        lab.mkdir()
        for name in ("fake_forge.py", "fake_internet.py", "fake_model_api.py", "day/outside.py"):
            shutil.copy(LAB / name, lab)
        mounted = {lab: "/lab", self._folder / "wheels": "/wheels", self._folder / "leaf.pem": "/leaf.pem"}
        self.docker(
            "run", "--detach", "--name=outside", "--network=host", "--user=root", "--entrypoint=python3",
            *(f"--volume={source}:{target}:ro" for source, target in mounted.items()),
            CLAUDE, "/lab/outside.py", "--cert=/leaf.pem", f"--address={ADDRESS}", f"--token={TOKEN}",
        )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while "listening" not in (said := self.docker("logs", "--tail=50", "outside")):
            if time.monotonic() > deadline:
                raise CommandError(said)
            time.sleep(0.1)

    def _furnish(self) -> None:
        home = self._folder / "ann"
        for name, text in HOME_FILES.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        shutil.copy(self._ca, home / ".config/agent-sandbox/corp-ca.pem")
        for name in run("git", "ls-files", "-z", cwd=ROOT).stdout.rstrip("\0").split("\0"):
            if (ROOT / name).is_file():
                copied = home / "agent-sandbox" / name
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copied)
        self.root(f"cp -R {home}/. {HOME} && chown -R 1000:1000 {HOME}")
        wheels = f"--no-index --find-links={self._folder}/wheels"
        script = f"""
cd
{sys.base_prefix}/bin/python3 -I -m venv .pipx
.pipx/bin/pip install --quiet {wheels} pipx
mkdir -p .local/bin
ln -s ~/.pipx/bin/pipx .local/bin
for name in {" ".join(PROJECTS)}; do git clone -q https://github.com/ann/$name; done
"""
        files = "".join(f"printf %s '{text}' >{name}\n" for name, text in PROJECT_FILES.items())
        run(*self.as_ann, "bash", "-ec", script + files)


def build_images() -> None:
    """Build the images; the one that the agent runs in has npm and pip, and the packages that the outside serves."""
    for name in ("base", "proxy"):
        run("docker", "tag", proxy_image(name), f"{IMAGE}/{name}")
    build_image(CLAUDE, LAB / "day", proxy_image("claude"))


@cache
def download_wheels() -> Path:
    """Download what `pipx install` needs; return the directory, which a later run uses again."""
    folder = ROOT / "build" / "wheels"
    fetch = (sys.executable, "-I", "-m", "pip", "download", "--quiet", f"--dest={folder}", f"--find-links={folder}")
    run(*fetch, "pip", "setuptools", "pipx", "hatchling", ROOT)
    return folder


def registries() -> list[str]:
    """Return the hosts that npm and pip in the image use by themselves: this repository names none."""
    ask = """
npm config get registry
python3 -c 'from pip._internal.models.index import PyPI; print(PyPI.url, PyPI.file_storage_domain)'
"""
    said = run("docker", "run", "--rm", "--network=none", "--entrypoint=sh", CLAUDE, "-c", ask).stdout.split()
    return [re.sub("^https://([^/]*).*", r"\1", address) for address in said]
