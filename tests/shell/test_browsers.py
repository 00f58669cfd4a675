"""browsers.sh: with certutil, Chromium's store gets the proxy's current CA and keeps its other certificates."""

from pathlib import Path

from bash_harness import Shell

START = "trust_the_ca_in_browsers"
# A fake of NSS's certutil. Its database has a line for each certificate: the nickname and the file's content.
CERTUTIL = """\
#!/bin/bash
db=${2#sql:}/cert9.db
case $3 in
  -N) : >"$db" ;;
  -L) grep "^$5 " "$db" ;;
  -D) sed -i "/^$5 /d" "$db" ;;
  -A) [ "$6 $7 $8" = "-t C,, -i" ] && ! grep "^$5 " "$db" && echo "$5 $(cat "$9")" >>"$db" ;;
esac
"""


def start(shell: Shell, ca: str, *, certutil: str = CERTUTIL) -> str:
    """Start with this CA; return the messages."""
    programs = shell.home.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "certutil").write_text(certutil)
    (programs / "certutil").chmod(0o755)
    file = shell.home.parent / "ca.crt"
    file.write_text(ca)
    path = f"{programs}:/usr/bin:/bin"
    return shell("messages browsers", START, PATH=path, AGENT_SANDBOX_CA=str(file)).stderr


def store(home: Path) -> Path:
    return home / ".pki" / "nssdb" / "cert9.db"


def test_adds_the_ca_to_the_store(shell: Shell) -> None:
    assert start(shell, "today") == ""
    assert store(shell.home).read_text() == "agent-sandbox today\n"


def test_replaces_the_last_ca_and_keeps_the_users_certificates(shell: Shell) -> None:
    start(shell, "yesterday")
    with store(shell.home).open("a") as database:
        database.write("company theirs\n")
    assert start(shell, "today") == ""
    assert store(shell.home).read_text() == "company theirs\nagent-sandbox today\n"


def test_creates_no_store_without_certutil(shell: Shell) -> None:
    assert shell("messages browsers", f"PATH=/nowhere; {START}").stderr == ""
    assert not (shell.home / ".pki").exists()


def test_warns_and_does_not_fail_if_certutil_cannot_add_the_ca(shell: Shell) -> None:
    said = start(shell, "today", certutil=CERTUTIL.replace("-A) ", "-A) false && "))
    assert said.startswith("agent-sandbox: browsers in the container do not trust the proxy's CA: ")
