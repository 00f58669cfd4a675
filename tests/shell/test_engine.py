"""scripts/engine: only what is missing is installed, and every address comes from the machine's own sources."""

from pathlib import Path

from bash_harness import Shell

ENGINE = Path(__file__).resolve().parents[2] / "scripts" / "engine"
SOURCE = f"source {ENGINE}; "
MIRRORS = """
apt-get() {
  case $4 in
    "Release: trixie") echo http://mirror.test/debian/;;
    "Release: bookworm-security") echo http://mirror.test/security/;;
  esac
}
"""


def test_installs_nothing_if_nothing_is_missing(shell: Shell) -> None:
    script = (
        "command() { true; }; is_installed() { true; }; missing_packages; apt-get() { echo called; }; install_packages"
    )
    assert shell.run("bash", "-c", SOURCE + script).stdout == ""


def test_names_the_package_of_a_missing_program(shell: Shell) -> None:
    script = "command() { [[ $2 != ip ]]; }; is_installed() { true; }; missing_packages"
    assert shell.run("bash", "-c", SOURCE + script).stdout == "iproute2\n"


def test_takes_docker_but_not_containerd_from_debian_13(shell: Shell) -> None:
    script = "command() { true; }; is_installed() { false; }; missing_packages"
    assert shell.run("bash", "-c", SOURCE + script).stdout.split() == [
        "docker.io/trixie",
        "docker-cli/trixie",
        "docker-compose/trixie",
        "docker-buildx/trixie",
        "containerd",
    ]


def test_the_base_image_uses_the_mirrors_of_this_machine(shell: Shell) -> None:
    assert shell.run("bash", "-c", SOURCE + MIRRORS + "base_sources").stdout == (
        "deb http://mirror.test/debian/ trixie main\n"
        "deb http://mirror.test/debian/ trixie-updates main\n"
        "deb http://mirror.test/security/ trixie-security main\n"
    )


def test_fetches_missing_package_lists_once(shell: Shell) -> None:
    script = """
    mirror_of() { [[ ! -e lists ]] || echo http://mirror.test/debian/; }
    apt-get() { echo "apt-get $*"; touch lists; }
    cd "$(mktemp -d)"; add_trixie; add_trixie
    """
    assert shell.run("bash", "-c", SOURCE + script).stdout == "apt-get update -qq\n"


def test_fails_on_a_machine_without_mirrors(shell: Shell) -> None:
    done = shell.run("bash", "-c", SOURCE + "mirror_of() { true; }; apt-get() { true; }; add_trixie", check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "scripts/engine: apt knows no mirror of bookworm; give it one in /etc/apt/sources.list.d\n",
    )


def test_keeps_a_running_engine_and_an_existing_base_image(shell: Shell) -> None:
    script = (
        "docker() { true; }; dockerd() { echo started; }; mmdebstrap() { echo made; }; start_engine; make_base_image"
    )
    assert shell.run("bash", "-c", SOURCE + script).stdout == ""


def test_the_script_contains_no_url() -> None:
    assert "http" not in ENGINE.read_text()
