"""Learn a policy while real tools and an attacker run: afterwards the tools work, and no attack does."""

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
import uvicorn
import yaml

import fake_forge
from bash_harness import ROOT
from certificates import make_authority
from fake_registries import app
from proxy_stand import ProxyProcess
from real_terminal import PROGRAM
from typed_shell import TypedShell

LAB = ROOT / "tests" / "lab"
LIVE = yaml.safe_load((LAB / "live_tasks.yaml").read_text("utf-8"))
INSTALLS = yaml.safe_load((LAB / "installs.yaml").read_text("utf-8"))
HOSTS = ("work.test", "forge.test", "ci.test", "upload.test", "loot.s3.amazonaws.com", "6b65793d73656372.leak.test")
OFFERED = re.compile(
    r"^(?:(?P<section>services|allow): (?P<text>\S[^\r\n]*)(?:(?!add it).)*add it\? [^]]*\] $|replay: [^\r\n]*)",
    re.MULTILINE | re.DOTALL,
)


@contextmanager
def served(leaf: Path | None = None) -> Iterator[int]:
    """Serve the registries and the forge on loopback, with TLS if there is a certificate. Yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", ssl_certfile=leaf))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(20)


class Desk:
    """A project, a home directory, and the proxy between them and the outside."""

    def __init__(self, folder: Path, proxy: ProxyProcess) -> None:
        self.proxy, self.project, self.home = proxy, folder / "project", folder / "home"
        for name in ("npm ci", "pip install -r"):
            for place, files in ((self.home, INSTALLS[name]["home"]), (self.project, INSTALLS[name]["files"])):
                for path, text in files.items():
                    (place / path).parent.mkdir(parents=True, exist_ok=True)
                    (place / path).write_text(text)
        self._folder, self._runs = folder, 0

    def run(self, script: str) -> str:
        """Run a script in an empty home directory, behind the proxy, with no settings of this machine."""
        self._runs += 1
        fresh = self._folder / f"run{self._runs}"
        fresh.mkdir()
        host, port = self.proxy.address
        trusted = ("SSL_CERT_FILE", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "npm_config_cafile")
        variables = {
            "PATH": os.environ["PATH"], "HOME": str(fresh), "PIP_CONFIG_FILE": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
            "npm_config_globalconfig": os.devnull,
            "http_proxy": f"http://{host}:{port}", "https_proxy": f"http://{host}:{port}",
            **dict.fromkeys(trusted, self.proxy.ready["ca"]),
        }  # fmt: skip
        script = script.replace("PROJECT", str(self.project))
        done = subprocess.run(
            ("sh", "-ec", f"exec 2>&1\n{script}"), cwd=fresh, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def attack(self, names: Iterable[str]) -> dict[str, str]:
        """Try these attacks. Return the status of each response, 000 for none."""
        curl = "curl --silent --max-time 9 --output /dev/null --write-out '%{http_code}\\n' "
        scripts = {name: f"{curl}{LIVE['attacks'][name]} || true" for name in names}
        return dict(zip(scripts, self.run("\n".join(scripts.values())).split(), strict=True))

    def stop_learning(self) -> tuple[list[str], str]:
        """Stop learning and accept the wanted entries. Return the other offers and the replay's result."""
        log = self._folder / "log.jsonl"
        log.write_text("".join(f"{json.dumps(line)}\n" for line in self.proxy.lines))
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), "NO_COLOR": "1", "PIP_CONFIG_FILE": os.devnull}
        shell = TypedShell(
            (*PROGRAM, "policy", "learn", "stop", "--file", str(log)), variables, self.project, columns=200
        )
        wanted = [f"{section}: {text}" for section, texts in LIVE["wanted"].items() for text in texts]
        found, declined = shell.read("", until=OFFERED)[1], []
        while found["section"]:
            entry = f"{found['section']}: {found['text']}"
            if entry not in wanted:
                declined.append(entry)
            found = shell.read("n\r" if entry in declined else "y\r", until=OFFERED)[1]
        shell.close()
        return sorted(declined), found[0]


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk whose proxy has the initial policy."""
    tmp_path = tmp_path_factory.mktemp("a")  # short, because the length of a socket path is limited
    monkeypatch.setattr(fake_forge, "ROOT", tmp_path / "forge")
    (tmp_path / "project" / ".devcontainer").mkdir(parents=True)
    authority = make_authority(tmp_path, HOSTS)
    with served(tmp_path / "leaf.pem") as secure, served() as plain:
        resolve = {(host, port): secure for host in HOSTS for port in (443, 8443)} | {("ci.test", 80): plain}
        folder = tmp_path / "project" / ".devcontainer"
        with ProxyProcess(folder, LIVE["before"], resolve=resolve, upstream_ca=authority) as proxy:
            yield Desk(tmp_path, proxy)


@pytest.mark.unasked
def test_a_policy_learned_from_tasks_allows_them_and_none_of_the_attacks(desk: Desk) -> None:
    tasks = [*LIVE["tasks"].values(), LIVE["session"].replace("JOBS", "1701 1702 1703")]
    assert desk.proxy.command("learn", "--seconds=300", "--who=ana").returncode == 0
    names, statuses = iter(LIVE["attacks"]), dict[str, str]()
    for task in tasks:
        statuses |= desk.attack(islice(names, 4))
        desk.run(task)
    assert {name for name, status in statuses.items() if status == "200"} == LIVE["attacks"].keys() - LIVE["denied"]
    assert desk.proxy.command("learn", "--seconds=0", "--who=ana").returncode == 0
    declined, replayed = desk.stop_learning()
    assert declined == LIVE["declined"]
    # Requests of a forged package manager are offered as part of the service, which does not allow them.
    passed, recorded = map(int, re.findall(r"[0-9]+", replayed))
    assert recorded - passed == len(declined) + 1
    assert "# What the model needs.\n" in desk.proxy.policy_file.read_text()
    assert desk.proxy.ask_control("reload")["ok"] is True
    for task in LIVE["tasks"].values():
        desk.run(task)
    desk.run(LIVE["session"].replace("JOBS", "1701 1799"))  # a new job
    desk.proxy.forget()
    assert set(desk.attack(LIVE["attacks"]).values()) == {"403", "400", "000"}  # 000: no tunnel
    assert {line["decision"] for line in desk.proxy.lines} == {"deny"}
