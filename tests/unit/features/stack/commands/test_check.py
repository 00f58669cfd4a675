from pathlib import Path

from agent_sandbox.project.render.paths import PROJECT_FILE
from run_cli import Ask

HINT = "  hint: it is optional: `agent-sandbox init` with an option, such as --memory 4g, writes one\n"


def test_reports_every_problem_with_its_line(empty_project: Path, ask: Ask) -> None:
    file = empty_project / PROJECT_FILE
    file.parent.mkdir()
    file.write_text("ide: vim\nlimits:\n  memory: 3\n")
    answer = ask("project", "check")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"error: {file}:1:6: unknown editor 'vim'\n  hint: known: jetbrains, none, vscode\n"
        f"error: {file}:3:11: `3` is not a size: a number with k, m or g, as in `4g`\n"
    )
    file.write_text("ide: none\n")
    assert ask("project", "check").err == f"{PROJECT_FILE}: ok\n"


def test_reports_a_missing_build_file_of_a_service(empty_project: Path, ask: Ask) -> None:
    file = empty_project / PROJECT_FILE
    file.parent.mkdir()
    file.write_text("beside: {db: {build: {dockerfile: D}}}\n")
    answer = ask("project", "check")
    missing = f"`beside: db` names a file that does not exist: {file.parent / 'D'}"
    assert (answer.code, answer.err) == (1, f"error: {file}:1:22: {missing}\n")
    (file.parent / "D").write_text("FROM debian:trixie-slim\n")
    assert ask("project", "check").err == f"{PROJECT_FILE}: ok\n"


def test_reports_a_missing_project_file(empty_project: Path, ask: Ask) -> None:
    answer = ask("project", "check")
    assert (answer.code, answer.err) == (
        1,
        f"error: {empty_project / PROJECT_FILE}: there is no project file\n{HINT}",
    )


def test_refuses_what_up_refuses_with_its_line(empty_project: Path, ask: Ask) -> None:
    file = empty_project / PROJECT_FILE
    file.parent.mkdir()
    for text, place, what, hint in (
        ("mounts:\n  - path: ../none\n", "2:5", "`mounts`: ../none: there is no such file or directory", "m"),
        ("mask:\n- a/b/\n", "2:3", "`mask`: a/b/: there is no directory a: create it first", ""),
        ("environment:\n  CI: x\n  https_proxy: x\n", "3:16", "`environment`: the sandbox sets https_proxy", "use"),
        ("setup: s.sh\n", "1:8", "`setup` names a file that does not exist: s.sh", ""),
    ):
        file.write_text(text)
        answer = ask("project", "check")
        hints = {"m": "  hint: mount another directory\n", "use": "  hint: use another name\n", "": ""}
        assert (answer.code, answer.err) == (1, f"error: {file}:{place}: {what}\n{hints[hint]}")
