"""`npm ci` and `pip install` of real projects from a registry 20 ms away, through the proxy and without it.

The packages are fetched once, with this machine's own configuration of npm and pip, and served from a folder.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.lane import delayed
from benchmarks.servers import HOST, LAB, process
from benchmarks.sides import Place, image, ours
from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

sys.path.insert(0, str(LAB))

from certificates import make_authority  # found just above

ROUNDS = 3
ONE_WAY = 0.01
NEAR = "localhost"  # the registry's name without a proxy
NODE = {"jest": "29.7.0", "eslint": "9.17.0", "webpack": "5.97.1", "webpack-cli": "5.1.4"}  # with all they need: 403
PYTHON = "jupyterlab==4.3.4"  # with all that it needs: 90
PIP = (sys.executable, "-P", "-m", "pip")

type Install = Callable[[Path, str, tuple[str, Path] | None], None]


def run(*argv: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a program; if it fails, raise RuntimeError with its output."""
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")


def clean(folder: Path) -> dict[str, str]:
    """Return an environment without proxies and settings of npm and pip."""
    theirs = re.compile(r"(?i)proxy|^pip_|^npm_|_cert|_ca_")
    kept = {name: value for name, value in os.environ.items() if not theirs.search(name)}
    none = {f"npm_config_{kind}config": str(folder / f"{kind}.npmrc") for kind in ("user", "global")}
    return {**kept, **none, "PIP_CONFIG_FILE": os.devnull, "HOME": str(folder)}


def fetch_node(folder: Path, site: Path) -> int:
    """Put the tarballs of a lock file on the site, and the lock file beside it; return how many there are."""
    project, cache = folder / "node", folder / "npm-cache"
    project.mkdir()
    (project / "package.json").write_text(json.dumps({"name": "bench", "version": "1.0.0", "dependencies": NODE}))
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", f"--cache={cache}")
    run("npm", "install", "--package-lock-only", *quiet, cwd=project)
    run("npm", "ci", *quiet, cwd=project)
    shutil.rmtree(project / "node_modules")
    lock = json.loads((project / "package-lock.json").read_text())
    packages = [one for one in lock["packages"].values() if "integrity" in one]
    (site / "npm").mkdir(parents=True)
    for number, package in enumerate(packages):
        algorithm, _, digest = package["integrity"].partition("-")
        name = base64.b64decode(digest).hex()
        content = cache / "_cacache" / "content-v2" / algorithm / name[:2] / name[2:4] / name[4:]
        package["resolved"] = f"@REGISTRY@/npm/{number}.tgz"
        if content.exists():  # npm does not fetch packages for other systems
            shutil.copy(content, site / "npm" / f"{number}.tgz")
    (project / "package-lock.json").write_text(json.dumps(lock))
    return len([*(site / "npm").iterdir()])


def fetch_python(_: Path, site: Path) -> int:
    """Put wheels on the site, with an index; return how many there are."""
    files = site / "pypi"
    run(*PIP, "download", "--quiet", "--only-binary=:all:", "--dest", files, PYTHON, cwd=site)
    for wheel in files.iterdir():
        name = re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
        (site / "simple" / name).mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (site / "simple" / name / "index.html").write_text(
            f'<!DOCTYPE html><a href="/pypi/{wheel.name}#sha256={digest}">{wheel.name}</a>'
        )
    return len([*files.iterdir()])


def npm_ci(folder: Path, registry: str, proxy: tuple[str, Path] | None) -> None:
    """Install from the lock file, into a new folder and with a new cache."""
    project = folder / "npm"
    project.mkdir()
    for name in ("package.json", "package-lock.json"):
        text = (folder / "node" / name).read_text()
        (project / name).write_text(text.replace("@REGISTRY@", registry))
    url, ca = proxy or ("", folder / "ca.crt")
    options = (f"--registry={registry}", f"--cafile={ca}", *((f"--https-proxy={url}",) if url else ()))
    run(
        *("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", f"--cache={folder / 'npm' / 'cache'}", *options),
        cwd=project,
        env=clean(folder),
    )
    shutil.rmtree(project)


def pip_install(folder: Path, registry: str, proxy: tuple[str, Path] | None) -> None:
    """Install by name, into a new folder and without a cache."""
    url, ca = proxy or ("", folder / "ca.crt")
    options = (f"--index-url={registry}/simple/", f"--cert={ca}", *((f"--proxy={url}",) if url else ()))
    alone = ("--no-cache-dir", "--disable-pip-version-check", "--no-compile", "--target", folder / "pip")
    run(*PIP, "install", *alone, *options, PYTHON, cwd=folder, env=clean(folder))
    shutil.rmtree(folder / "pip")


TOOLS: Mapping[str, tuple[str, Callable[[Path, Path], int], Install]] = {
    "npm": ("`npm ci` of {} packages", fetch_node, npm_ci),
    "pip": ("`pip install` of {} packages", fetch_python, pip_install),
}


@contextlib.contextmanager
def registry_at(folder: Path) -> Iterator[int]:
    """Serve the site from 20 ms away; hand out the port."""
    script = Path(__file__).with_name("file_server.py")
    with process(sys.executable, script, folder / "leaf.pem", folder / "site") as running:
        assert running.stdout is not None  # noqa: S101
        with delayed(int(running.stdout.readline()), one_way=ONE_WAY) as far:
            yield far


def rows() -> list[Row]:
    """Measure each tool through the proxy and without it, in turn."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = folder / "site"
        site.mkdir()
        make_authority(folder, [HOST, NEAR])
        fetched = {}
        for tool, (figure, fetch, install) in TOOLS.items():
            try:
                fetched[figure.format(fetch(folder, site))] = install
            except (OSError, RuntimeError) as error:
                print(f"left out: {tool}, which could not fetch the packages: {error}", file=sys.stderr)
        port = stack.enter_context(registry_at(folder))
        place = Place(folder=folder, ports=(port,), image=image())
        return [_row(figure, install, place, port) for figure, install in fetched.items()]


def _row(figure: str, install: Install, place: Place, port: int) -> Row:
    with ours(place) as server:
        proxy = (f"http://127.0.0.1:{server.port}", server.ca)
        sides = ((f"https://{HOST}:{port}", proxy), (f"https://{NEAR}:{port}", None))
        seconds: tuple[list[float], list[float]] = ([], [])
        for turn in range(-1, ROUNDS):  # the first warms up the files and the proxy
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                start = time.perf_counter()
                install(place.folder, *sides[side])
                if turn >= 0:
                    seconds[side].append(time.perf_counter() - start)
    return Row(figure=figure, unit="s", ours=seconds[0], other=seconds[1], beside="direct", goal="1x", ratio=Ratio.COST)
