"""Which changes of a repository's settings are accepted without a review, as git reads the file."""

import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.protect.harmless_settings import is_harmless
from agent_sandbox.features.protect.snapshot import Held
from agent_sandbox.host.git.git_config import settings_in
from table_tests import each

CONFIG = ".git/config"
BEFORE = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = https://example.com/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[alias]
\tst = "!f() { \\
git status; }; f"
"""


def held(data: bytes) -> Held:
    return Held(texts={CONFIG: data.decode(errors="surrogateescape")}, settings={CONFIG: settings_in(data)})


def accepted(after: bytes, before: bytes = BEFORE) -> bool:
    return is_harmless(CONFIG, held(before), held(after))


@pytest.mark.parametrize(
    "command",
    [
        "remote add fork git@example.com:me/x.git",
        "remote add fork ssh://git@example.com:2222/me/x.git",
        "config branch.main.vscode-merge-base origin/main",
        "config branch.a#1.merge refs/heads/a#1",
        "config branch.main.remote origin",
        "config user.name Änne",
        "config user.email anne@example.com",
        "config --unset core.filemode",
        "config core.autocrlf input",
        "config --remove-section core",
    ],
)
def test_accepts_settings_that_git_and_editors_commonly_write(tmp_path: Path, command: str) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    file = tmp_path / ".git" / "config"
    file.write_bytes(BEFORE)
    subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    assert accepted(file.read_bytes())


@pytest.mark.parametrize(
    "command",
    [
        "remote set-url origin https://example.org/y.git",
        "remote set-url --push origin https://example.org/y.git",
        "remote set-url --add origin https://example.org/y.git",
        "config branch.known.remote other",
        "config branch.known.pushRemote https://example.org/y.git",
        "config submodule.lib.url https://example.org/y.git",
        "config branch.known.merge refs/heads/main",
        "config --unset remote.other.pushurl",
        "config --unset branch.known.pushRemote",
        "config user.signingkey /workspace/key",
    ],
)
def test_does_not_accept_changed_remotes_branches_submodules_or_signing_keys(tmp_path: Path, command: str) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    file = tmp_path / ".git" / "config"
    more = (
        b'[remote "other"]\n\turl = https://example.com/z.git\n\tpushurl = https://example.com/mine.git\n'
        b'[branch "known"]\n\tremote = origin\n\tmerge = refs/heads/known\n\tpushRemote = other\n'
        b"[user]\n\tsigningkey = /home/me/key\n"
        b'[submodule "lib"]\n\turl = https://example.com/lib.git\n'
    )
    file.write_bytes(BEFORE + more)
    subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    assert not accepted(file.read_bytes(), BEFORE + more)


def test_accepts_the_removal_of_a_deleted_branchs_settings() -> None:
    before = BEFORE + b'[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/x\n'
    assert accepted(BEFORE, before)


FOLLOWS = b'[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/%s\n'


def test_accepts_a_new_branch_only_with_an_upstream_of_the_same_name() -> None:
    assert accepted(BEFORE + FOLLOWS % b"x")
    assert not accepted(BEFORE + FOLLOWS % b"main")
    assert not accepted(BEFORE + FOLLOWS % b"X")


def test_accepts_a_new_branch_with_another_upstream_if_git_pushes_by_name() -> None:
    then, now = held(BEFORE), held(BEFORE + FOLLOWS % b"main")
    assert is_harmless(CONFIG, then, now, pushes_by_name=True)
    then = held(BEFORE + FOLLOWS % b"x")
    assert not is_harmless(CONFIG, then, now, pushes_by_name=True)


def test_accepts_a_branch_that_already_had_another_upstream() -> None:
    before = BEFORE + FOLLOWS % b"main"
    assert accepted(before + b"[user]\n\tname = Ann\n", before)


@pytest.mark.parametrize(
    "lines",
    [
        "[core]\n\tfsmonitor = ./x",
        "[core]\n\thooksPath = x",
        "[core]\n\tsshCommand = x",
        "[core]\n\teditor = x",
        "[core]\n\tpager = x",
        "[core]\n\tworktree = /",
        "[core]\n\tattributesFile = x",
        "[core]\n\tgitProxy = x",
        "[core]\n\taskPass = x",
        "[core]\n\talternateRefsCommand = x",
        "[core]\n\texcludesFile = x",
        "[core]\n\tprotectHFS = false",
        "[sequence]\n\teditor = x",
        "[alias]\n\tco = !x",
        '[filter "x"]\n\tclean = x',
        '[filter "x"]\n\tsmudge = x',
        '[filter "x"]\n\tprocess = x',
        "[diff]\n\texternal = x",
        '[diff "x"]\n\tcommand = x',
        '[diff "x"]\n\ttextconv = x',
        '[merge "x"]\n\tdriver = x',
        '[mergetool "x"]\n\tcmd = x',
        "[credential]\n\thelper = x",
        '[credential "https://example.com"]\n\thelper = x',
        "[include]\n\tpath = x",
        '[includeIf "gitdir:/"]\n\tpath = x',
        '[url "ext::x"]\n\tinsteadOf = https://',
        '[url "x"]\n\tpushInsteadOf = https://',
        "[protocol]\n\tallow = always",
        '[protocol "ext"]\n\tallow = always',
        "[gpg]\n\tprogram = x",
        '[gpg "ssh"]\n\tprogram = x',
        '[gpg "ssh"]\n\tdefaultKeyCommand = x',
        '[remote "origin"]\n\tuploadpack = x',
        '[remote "origin"]\n\treceivepack = x',
        '[remote "origin"]\n\tvcs = x',
        '[remote "origin"]\n\tproxy = x',
        '[remote "origin"]\n\turl = ext::sh -c x',
        '[remote "origin"]\n\turl = ./x',
        '[remote "origin"]\n\turl = /x',
        '[remote "origin"]\n\turl = file:///x',
        '[remote "origin"]\n\turl = http://example.com/x.git',
        '[remote "origin"]\n\tpushurl = x',
        '[remote "other"]\n\tfetch = +refs/heads/*:refs/remotes/other/*\n\turl',
        '[branch "x"]\n\tremote = ./x',
        # git passes a remote's name where it expects an option or a name, also from `git status`.
        '[remote "--upload-pack=touch /tmp/p;git-upload-pack"]\n\turl = https://127.0.0.1/x',
        '[remote "-x"]\n\tfetch = +refs/heads/*:refs/remotes/x/*',
        '[remote "ext::sh"]\n\turl = https://127.0.0.1/x',
        '[branch "-x"]\n\tremote = origin',
        # git fetches missing objects from here without asking.
        '[remote "mirror"]\n\turl = https://127.0.0.1/x\n\tpromisor = true',
        '[remote "mirror"]\n\turl = https://127.0.0.1/x\n\tpartialclonefilter = blob:none',
        # The next plain `git push`, or `git fetch` on this machine, overwrites or deletes branches.
        '[remote "origin"]\n\tpush = +refs/heads/agent:refs/heads/main',
        '[remote "origin"]\n\tpush = :refs/heads/main',
        "[push]\n\tdefault = upstream",
        '[remote "mirror"]\n\turl = https://127.0.0.1/x\n\tfetch = +refs/heads/*:refs/heads/*',
        "[core]\n\tsharedRepository = 0666",
        "[http]\n\tproxy = x",
        "[http]\n\tsslVerify = false",
        "[http]\n\textraHeader = x",
        '[http "https://example.com"]\n\tsslVerify = false',
        "[uploadpack]\n\tpackObjectsHook = x",
        "[receive]\n\tprocReceiveRefs = x",
        '[submodule "x"]\n\tupdate = !x',
        "[extensions]\n\tworktreeConfig = true",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable",
        "[pager]\n\tlog = x",
        "[trailer]\n\tcommand = x",
        "[gc]\n\tauto = 0",
        "[something]\n\tnew = x",
    ],
)
def test_does_not_accept_any_other_setting(lines: str) -> None:
    assert not accepted(BEFORE + f"{lines}\n".encode())


@pytest.mark.parametrize(
    "text",
    [
        b"[CORE]\n\tFSMONITOR = ./x\n",
        b"[Core]\n\thooksPATH = x\n",
        b'[FILTER "x"]\n\tCLEAN = x\n',
        b'[remote "a.url"]\n\tuploadpack = x\n',
        b"[remote.origin]\n\tuploadpack = x\n",
        b'[core] fsmonitor = "./x"\n',
        b"[core]fsmonitor=./x\n",
        b"[core]\n\tfsmonitor\n",
        b"[core]\n\tabbrev = 7 ; a comment\n",
        b"[core]\n\tabbrev = 7\\\n\tfsmonitor = x\n",
        b'[user]\n\tname = "Ann\\n[core]\\n\\tfsmonitor = x"\n',
        b'[user]\n\tname = A"n"n\n',
        b"[user]\n\tname = Ann\\\\\n",
        b'[user "\\"]\n[core]\n\tfsmonitor = x\n#"]\n\tname = Ann\n',
        b"[user]\r\n\tname = Ann\r\n",
        b"[user]\n\tname = Ann\r",
        b"[user]\n\tname = Ann\x00[core]\n\tfsmonitor = x\n",
        b"[us\x00er]\n\tname = Ann\n",
        b"[user]\n\tname = Ann\x0b\n",
        b"[user]\n\tname = Ann\x1b[31m\n",
        b"[user]\n\tname = Ann\xff\n",
        b"[user]\n\tname = Ann\xe2\x80\xa8[core]\n",
        b"[user]\n  name = Ann\n",
        b"[user]\n\tname = Ann ; x\n",
        b"# a comment\n",
        b"[core]\n\tabbrev = !x\n",
        b"[broken\n",
    ],
)
def test_does_not_accept_text_that_two_parsers_could_read_differently(text: bytes) -> None:
    assert not accepted(BEFORE + text)


@pytest.mark.parametrize(
    "after",
    [
        b"\xef\xbb\xbf" + BEFORE,
        BEFORE.replace(b"\n", b"\r\n"),
        BEFORE.replace(b"[alias]\n", b""),
        BEFORE.replace(b"\turl = https://example.com/x.git\n", b""),
        BEFORE.replace(b'\tst = "!f', b'\tco = "!f'),
        BEFORE + BEFORE.replace(b"git status", b"git stash"),
        b"",
    ],
)
def test_does_not_accept_changes_to_existing_lines(after: bytes) -> None:
    assert not accepted(after)


def test_checks_every_value_of_a_key_with_several_values() -> None:
    one = b'[remote "fork"]\n\turl = https://example.org/y.git\n'
    assert accepted(BEFORE + one + one.replace(b"y.git", b"z.git"))
    assert not accepted(BEFORE + one.replace(b"https://example.org/y.git", b"./x") + one)


def test_accepts_a_section_that_appears_twice() -> None:
    assert accepted(BEFORE + b"[user]\n\tname = Ann\n[user]\n\temail = ann@example.com\n")
    assert not accepted(BEFORE + b"[user]\n\tname = Ann\n[user]\n\temail = a@example.com\n[core]\n\tfsmonitor = x\n")


def test_accepts_nothing_without_a_snapshot_or_without_settings() -> None:
    now = held(BEFORE)
    assert not is_harmless(CONFIG, Held(), now)
    assert not is_harmless(CONFIG, now, Held(texts=now.texts, settings={CONFIG: ()}))
    assert not is_harmless(".envrc", Held(texts={".envrc": "1\n"}), Held(texts={".envrc": "2\n"}))


def test_does_not_accept_remotes_or_branches_in_the_settings_of_a_worktree() -> None:
    path = ".git/config.worktree"
    before = b"[core]\n\tbare = false\n"
    for lines in (b'[remote "origin"]\n\tpushurl = https://127.0.0.1/evil\n', b'[branch "main"]\n\tremote = .\n'):
        then, now = (
            Held(texts={path: data.decode()}, settings={path: settings_in(data)}) for data in (before, before + lines)
        )
        assert not is_harmless(path, then, now)


DOTENV = ".env"
ENV_BEFORE = "# mine\nSTRIPE_KEY=sk_1\nCOMPOSE_FILE=a.yml\nNODE_OPTIONS=--no-warnings\nLOG_LEVEL=info\n"


def edited(after: str, before: str = ENV_BEFORE) -> bool:
    return is_harmless(DOTENV, Held(texts={DOTENV: before}), Held(texts={DOTENV: after}))


@each(
    "after",
    [
        ENV_BEFORE,
        ENV_BEFORE.replace("sk_1", "sk_2"),
        ENV_BEFORE.replace("STRIPE_KEY=sk_1\n", ""),
        ENV_BEFORE.replace("sk_1", '"sk_2"'),
        f"{ENV_BEFORE}\nexport OTHER_TOKEN=x/y+z=\n# a note: für später\nAWS_KEY_ID=AKIA",
    ],
)
def test_accepts_other_credentials_in_dotenv(after: str) -> None:
    assert edited(after)


@each(
    "after",
    [
        ENV_BEFORE.replace("a.yml", "evil.yml"),
        ENV_BEFORE.replace("COMPOSE_FILE=a.yml\n", ""),
        ENV_BEFORE.replace("--no-warnings", "--require=./evil.js"),
        f"{ENV_BEFORE}COMPOSE_FILE=evil.yml\n",
        f"{ENV_BEFORE}COMPOSE_PROJECT_TOKEN=x\n",
        ENV_BEFORE.replace("info", "debug"),
        *(f"{ENV_BEFORE}{name}\n" for name in ("DOCKERHUB_USER=evil", "DATA_ID=/", "DB_PORT=5432", "JUPYTER_TOKEN=")),
        *(f"{ENV_BEFORE}# x{end}PATH=evil\n" for end in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
        f"{ENV_BEFORE}DOCKER_TOKEN=x\n",
        f"{ENV_BEFORE}GIT_CONFIG_KEY_0=core.fsmonitor\n",
        f"{ENV_BEFORE}LD_PRELOAD=./evil.so\n",
        f"{ENV_BEFORE}BASH_ENV=./evil\n",
        f"{ENV_BEFORE}PATH=./evil\n",
        f"{ENV_BEFORE}X_KEY=$(./evil)\n",
        f"{ENV_BEFORE}X_KEY=`./evil`\n",
        f"{ENV_BEFORE}X_KEY=x;./evil\n",
        f"{ENV_BEFORE}X_KEY=x ./evil\n",
        f"{ENV_BEFORE}X_KEY='x\n",
        f"{ENV_BEFORE}X_KEY=x\\\n",
        f"{ENV_BEFORE}X_KEY=x\rCOMPOSE_FILE=evil.yml\n",
        f"{ENV_BEFORE}# x\rCOMPOSE_FILE=evil.yml\n",
        f"{ENV_BEFORE}X_KEY=x\u2028COMPOSE_FILE=evil.yml\n",
        "\n".join(reversed(ENV_BEFORE.split("\n"))) + "PATH=x",
    ],
)
def test_does_not_accept_a_line_of_dotenv_on_which_compose_or_a_shell_acts(after: str) -> None:
    assert not edited(after)


def test_does_not_accept_a_dotenv_with_a_value_of_several_lines_or_without_a_snapshot() -> None:
    before = 'NODE_OPTIONS="--require\n./a.js"\nX_KEY=a\n'
    assert not edited(before.replace("X_KEY=a", "X_KEY=b"), before)
    assert not edited("A_KEY=b\\\nX_KEY=b\n", "A_KEY=b\\\n")
    assert not is_harmless(DOTENV, Held(), Held(texts={DOTENV: "X_KEY=a\n"}))
    assert not is_harmless(DOTENV, Held(texts={DOTENV: "X_KEY=a\n"}), Held())
