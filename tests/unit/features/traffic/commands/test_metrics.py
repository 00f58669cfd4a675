import json
import shlex
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands import metrics as subject
from agent_sandbox.features.traffic.commands.metrics import metrics
from agent_sandbox.features.watch.watching.connection import Connection
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied
from table_tests import each

WATCH = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy watch --control"
COUNTED = 'agent_sandbox_requests_total{cause="host",decision="deny",sandbox="'


def test_prints_the_counts_of_a_log_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text(f"{denied('GET https://a.test/')}\nnoise\n")
    assert exit_code(lambda: metrics(file=tmp_path / "log")) == 0
    assert f'{COUNTED}"}} 1.0' in capsys.readouterr().out.splitlines()


def test_serves_the_metrics_of_a_running_stack(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy")
    lines = (
        json.dumps({"state": {"ask": "", "questions": [], "grants": []}}),
        json.dumps({"record": json.loads(denied("GET https://a.test/"))}),
        json.dumps({"dropped": 2}),
        json.dumps({"answer": {}}),
    )
    docker.says(WATCH, script="; ".join(f"echo {shlex.quote(line)}" for line in lines))
    texts: list[str] = []

    def scrape_and_stop(seconds: float) -> bool:
        url = capsys.readouterr().err.partition(": ")[2].partition(" ")[0]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        texts.append(opener.open(url, timeout=30).read().decode())
        raise KeyboardInterrupt(seconds)

    made = Connection.__init__

    def make(self: Connection, *given: object, **more: object) -> None:
        made(self, *given, **more)  # type: ignore[arg-type]
        self._over.wait = scrape_and_stop  # type: ignore[assignment, method-assign]

    monkeypatch.setattr(Connection, "__init__", make)
    assert exit_code(lambda: metrics(listen="0")) == 130
    for line in (
        f'{COUNTED}app-1"}} 1.0',
        'agent_sandbox_missed_records_total{sandbox="app-1"} 2.0',
        'agent_sandbox_connected{sandbox="app-1"} 0.0',
    ):
        assert line in texts[0].splitlines()


@each(
    ("listen", "file", "error"),
    [
        ("x", None, "--listen: not an address: 'x'"),
        ("70000", None, "--listen: not an address: '70000'"),
        ("1.2.3:80", None, "--listen: not an address: '1.2.3:80'"),
        ("80", Path("log"), "--file: --listen serves the metrics of a running stack"),
    ],
)
def test_rejects_invalid_options(
    listen: str, file: Path | None, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: metrics(listen=listen, file=file)) == 1
    assert capsys.readouterr().err.startswith(f"error: {error}\n  hint: ")


def test_reports_a_port_that_is_in_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert exit_code(lambda: metrics(listen=f"127.0.0.1:{port}")) == 1
    assert f"cannot listen at 127.0.0.1:{port}: address already in use" in capsys.readouterr().err


def test_names_the_extra_to_install_if_the_package_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "find_spec", lambda _: None)
    assert exit_code(lambda: metrics(listen="80")) == 1
    assert "install agent-sandbox with the extra `metrics`" in capsys.readouterr().err.replace("\n", " ")


def test_importing_the_module_does_not_import_prometheus_client() -> None:
    code = f"import sys, {metrics.__module__}; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
