import json
import socket
import subprocess
import sys
from pathlib import Path

from agent_sandbox.features.ports import listeners as module
from agent_sandbox.features.ports.listeners import clients, listeners

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(address: str, port: int, state: str, inode: int) -> str:
    return (
        f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000 0 {inode} 1\n"
    )


def test_lists_listening_ports_with_their_programs(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    everywhere, own, name_server = "00000000", "0100007F", "0B00007F"
    tcp = (
        line(own, 3000, "0A", 7),
        line(everywhere, 8080, "0A", 8),
        line(own, 40000, "01", 9),
        line(name_server, 50000, "0A", 10),
    )
    (tmp_path / "net" / "tcp").write_text(HEAD + "".join(tcp))
    (tmp_path / "net" / "tcp6").write_text(HEAD + line("0" * 32, 3000, "0A", 7))
    (tmp_path / "12" / "fd").mkdir(parents=True)
    (tmp_path / "12" / "fd" / "3").symlink_to("socket:[7]")
    (tmp_path / "12" / "fd" / "4").symlink_to("/dev/null")
    (tmp_path / "12" / "cmdline").write_bytes(b"node\0server.js\0" + b"x" * 1000)
    (tmp_path / "13").mkdir()  # another user's
    first, second = listeners(tmp_path)
    command = str(first.pop("command"))
    assert (command[:15], len(command)) == ("node server.js ", 200)
    assert first == {"port": 3000, "addresses": ["any", "loopback"]}
    assert second == {"port": 8080, "addresses": ["any"], "command": ""}


def test_finds_the_program_of_a_connection_by_its_address(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    order = slice(None, None, -1 if sys.byteorder == "little" else 1)
    here, elsewhere = bytes((172, 18, 0, 3))[order].hex().upper(), bytes((127, 0, 0, 1))[order].hex().upper()
    tcp = (line(here, 40112, "01", 7), line(elsewhere, 40113, "01", 8), line(here, 40114, "0A", 8))
    (tmp_path / "net" / "tcp").write_text(HEAD + "".join(tcp))
    (tmp_path / "net" / "tcp6").write_text(HEAD + line(module.MAPPED + here, 40115, "01", 9))
    for inode, command in ((7, b"curl\0-s\0"), (8, b"node\0"), (9, b"java\0"), (10, b"")):
        (tmp_path / str(inode) / "fd").mkdir(parents=True)
        (tmp_path / str(inode) / "fd" / "3").symlink_to(f"socket:[{inode}]")
        (tmp_path / str(inode) / "cmdline").write_bytes(command)
    asked = [f"172.18.0.3:{port}" for port in range(40112, 40116)]
    assert clients(asked, tmp_path) == {"172.18.0.3:40112": "curl -s", "172.18.0.3:40115": "java"}


def test_reads_only_the_start_of_a_huge_command_line(tmp_path: Path) -> None:
    """A program can have megabytes of arguments and open a socket any number of times."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEAD + line("030012AC", 40112, "01", 7))
    (tmp_path / "12" / "fd").mkdir(parents=True)
    for number in range(50):
        (tmp_path / "12" / "fd" / str(number)).symlink_to("socket:[7]")
    with (tmp_path / "12" / "cmdline").open("wb") as file:
        file.write(b"curl\0" + b"x" * 1000)
        file.truncate(1 << 40)
    assert clients(["172.18.0.3:40112"], tmp_path) == {"172.18.0.3:40112": "curl " + "x" * 195}


def test_finds_the_program_of_a_real_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        address = "{}:{}".format(*one.getsockname())
        argv = (sys.executable, "-I", "-c", Path(module.__file__).read_text("utf-8"), "clients", address)
        said = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    assert [*said] == [address]
    assert Path(sys.executable).name[:6] in said[address]


def test_lists_no_ports_without_a_tcp_table(tmp_path: Path) -> None:
    assert listeners(tmp_path) == []


def test_watch_reports_each_change_until_stdin_ends(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    table = tmp_path / "net" / "tcp"
    table.write_text(HEAD)
    calls = f"['watch'](pathlib.Path({str(tmp_path)!r}), seconds=0.01)"
    code = f"import pathlib, runpy; runpy.run_path({module.__file__!r}){calls}"
    with subprocess.Popen(
        (sys.executable, "-I", "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdin
        assert watching.stdout
        assert watching.stdout.readline() == "[]\n"
        (tmp_path / "new").write_text(HEAD + line("00000000", 3000, "0A", 7))
        (tmp_path / "new").rename(table)
        assert json.loads(watching.stdout.readline()) == [{"port": 3000, "addresses": ["any"], "command": ""}]
        watching.stdin.close()
        assert watching.wait(30) == 0
        assert watching.stdout.read() == ""
