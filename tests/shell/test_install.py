"""images/project/install: installs the packages of a project; a failure shows the installer's own message."""

from pathlib import Path

import pytest

from bash_harness import STRICT, Shell
from table_tests import each

INSTALL = Path(__file__).resolve().parents[2] / "images" / "project" / "install"
APT = "E: Unable to locate package nope"
NPM = """npm ERR! code E404
npm ERR! 404 Not Found - GET https://registry.test/nope
npm ERR! 404
npm ERR! A complete log of this run can be found in: /root/.npm/_logs/x.log"""
PIP = """ERROR: Could not find a version that satisfies the requirement nope (from versions: none)
ERROR: No matching distribution found for nope"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(home=tmp_path)


def install(shell: Shell, key: str, packages: str, programs: str) -> tuple[int, str, str]:
    """Run the script with these functions in place of the installers."""
    (shell.home / "list").write_text(packages)
    script = f"{STRICT} source {INSTALL}; {programs}; main {key} {shell.home}/list"
    places = {"TOOLS": shell.home / "tools", "TRUST": shell.home, "INSTALL_LOG": shell.home / "log"}
    done = shell.run(
        "bash", "-c", script, check=False, **{f"AGENT_SANDBOX_{name}": str(path) for name, path in places.items()}
    )
    return done.returncode, done.stdout, done.stderr


def test_an_empty_list_installs_nothing_but_creates_the_tools_directory(shell: Shell) -> None:
    for key in ("packages", "tools.npm", "tools.pip"):
        assert install(shell, key, "", "apt-get() { echo called; }; npm() { echo called; }") == (0, "", "")
    assert (shell.home / "tools" / "bin").is_dir()


def test_each_line_is_one_package(shell: Shell) -> None:
    programs = 'apt-get() { printf "<%s>" "$@"; }; rm() { :; }'
    code, out, _ = install(shell, "packages", "a\nb=1:2.0\n", programs)
    assert (code, out) == (0, "<update><install><-y><--no-install-recommends><a><b=1:2.0>")


def test_npm_gets_packages_after_its_options(shell: Shell) -> None:
    programs = 'npm() { printf \'%s\\n\' "$*" "$NODE_EXTRA_CA_CERTS"; }'
    code, out, _ = install(shell, "tools.npm", "pnpm@10\n", f"NPM_REGISTRY=https://npm.test; {programs}")
    options = f"--global --prefix {shell.home}/tools --cache /run/npm --no-fund --no-audit --no-update-notifier"
    expected = f"install {options} --loglevel http --registry https://npm.test -- pnpm@10\n{shell.home}/ca.pem\n"
    assert (code, out) == (0, expected)


@each(
    ("key", "said", "words"),
    [
        ("packages", APT, APT),
        ("tools.npm", NPM, "npm ERR! 404 Not Found - GET https://registry.test/nope"),
        ("packages", "Segmentation fault", "Segmentation fault"),
        ("packages", "", "it failed"),
    ],
)
def test_a_failure_reports_the_installers_error_message(tmp_path: Path, key: str, said: str, words: str) -> None:
    (tmp_path / "said").write_text(f"{said}\n" if said else "")
    fails = f"cat {tmp_path}/said; return 100"
    code, _, err = install(Shell(home=tmp_path), key, "nope\n", f"apt-get() {{ {fails}; }}; npm() {{ {fails}; }}")
    assert (code, err) == (1, f"agent-sandbox: {key}: {words}\n")


def test_a_failure_of_pip_reports_pips_error_message(shell: Shell) -> None:
    (shell.home / "said").write_text(PIP)
    code, _, err = install(shell, "tools.pip", "nope\n", f"install_pip() {{ cat {shell.home}/said; false; echo; }}")
    assert (code, err) == (1, f"agent-sandbox: tools.pip: {PIP.splitlines()[0]}\n")
