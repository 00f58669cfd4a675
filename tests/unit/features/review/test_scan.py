import os
from pathlib import Path

import pytest

from agent_sandbox.features.review import scan as module
from agent_sandbox.features.review.scan import MOST_BYTES, Scan, Seen


def look(root: Path) -> dict[str, Seen]:
    return {seen.path: seen for seen in Scan(root=root, skipped=[]).files()}


def write(root: Path, path: str, text: str = "x\n", *, mode: int = 0o644) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_files_of_a_kind_and_executables_are_found(tmp_path: Path) -> None:
    for path in ("Makefile", "src/a.py", "web/package.json", "node_modules/x/package.json", ".devcontainer/Dockerfile"):
        write(tmp_path, path)
    write(tmp_path, "src/tool", mode=0o755)
    scan = Scan(root=tmp_path, skipped=[])
    found = {seen.path: seen.kind.name for seen in scan.files()}
    assert found == {"Makefile": "build", "web/package.json": "packages", "src/tool": "executable"}
    assert (sorted(scan.skipped), scan.complete) == ([".devcontainer", "node_modules"], True)


def test_finds_links_that_lead_out_of_the_project_or_nowhere_or_have_a_reviewed_name(tmp_path: Path) -> None:
    write(tmp_path, "inside.txt")
    for name, target in {"in": "inside.txt", "out": "/etc/passwd", "broken": "no", "Makefile": "inside.txt"}.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "loop").symlink_to("loop")
    found = {path: (seen.kind.name, seen.data) for path, seen in look(tmp_path).items()}
    assert found == {
        "out": ("link", b"link to /etc/passwd\n"),
        "broken": ("link", b"link to no\n"),
        "loop": ("link", b"link to loop\n"),
        "Makefile": ("build", b"link to inside.txt\nx\n"),
    }


def test_a_link_with_a_reviewed_name_changes_with_its_target(tmp_path: Path) -> None:
    write(tmp_path, "inside.txt")
    (tmp_path / "Makefile").symlink_to("inside.txt")
    before = look(tmp_path)
    write(tmp_path, "inside.txt", "y\n")
    assert (before["Makefile"].data, look(tmp_path)["Makefile"].data) == (
        b"link to inside.txt\nx\n",
        b"link to inside.txt\ny\n",
    )


def test_a_file_with_the_same_data_as_a_link_has_another_digest(tmp_path: Path) -> None:
    write(tmp_path, "inside.txt")
    (tmp_path / "Makefile").symlink_to("inside.txt")
    link = look(tmp_path)["Makefile"]
    (tmp_path / "Makefile").unlink()
    write(tmp_path, "Makefile", "link to inside.txt\nx\n")
    file = look(tmp_path)["Makefile"]
    assert (file.data == link.data, file.digest == link.digest) == (True, False)
    assert (link.plain, file.plain) == (False, True)


def test_finds_a_link_in_the_place_of_a_reviewed_directory(tmp_path: Path) -> None:
    write(tmp_path, "data/release")
    (tmp_path / "scripts").symlink_to("data")
    assert {path: seen.kind.name for path, seen in look(tmp_path).items()} == {"scripts": "link"}


def test_does_not_enter_a_link_to_a_directory(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/Makefile")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "out").symlink_to(tmp_path / "elsewhere")
    assert list(look(tmp_path / "project")) == ["out"]


def test_the_digest_depends_on_content_mode_and_size(tmp_path: Path) -> None:
    digests = set()
    for text, mode in (("a", 0o644), ("a", 0o755), ("b", 0o644), ("a" * (MOST_BYTES + 1), 0o644)):
        write(tmp_path, "Makefile", text, mode=mode)
        digests.add(look(tmp_path)["Makefile"].digest)
    write(tmp_path, "Makefile", "a" * (MOST_BYTES + 2))
    digests.add(look(tmp_path)["Makefile"].digest)
    assert len(digests) == 5


@pytest.mark.parametrize("most", [module.MOST_HASHED, 0])
def test_a_change_far_inside_a_large_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(module, "MOST_HASHED", most)
    digests = set()
    for last in "ab":
        write(tmp_path, "package-lock.json", "a" * MOST_BYTES + last)
        scan = Scan(root=tmp_path, skipped=[], unhashed=most)
        digests |= {seen.digest for seen in scan.files()}
    assert len(digests) == 2


def test_skips_only_exact_directory_names_and_reports_directories_that_are_too_deep(tmp_path: Path) -> None:
    write(tmp_path, "Node_Modules/Makefile")
    write(tmp_path, "sub/.devcontainer/devcontainer.json")
    write(tmp_path, f"{'a/' * 70}Makefile")
    scan = Scan(root=tmp_path, skipped=[])
    assert [seen.path for seen in scan.files()] == ["sub/.devcontainer/devcontainer.json", "Node_Modules/Makefile"]
    assert [path.count("/") for path in scan.skipped] == [module.MOST_DEPTH]


def test_does_not_open_pipes_and_keeps_unusual_file_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "GNUmakefile")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "evil\n\x1b[2J.sh").write_text("x")
    (tmp_path / os.fsdecode(b"\xff.sh")).write_text("x")
    assert sorted(look(tmp_path)) == ["GNUmakefile", "evil\n\x1b[2J.sh", "\udcff.sh"]
    assert look(tmp_path)["GNUmakefile"].data == module.SPECIAL


@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_ENTRIES"])
def test_a_scan_stops_at_its_limits_and_is_marked_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for number in range(5):
        write(tmp_path, f"{number}.sh")
    monkeypatch.setattr(module, limit, 3)
    scan = Scan(root=tmp_path, skipped=[])
    assert (len(list(scan.files())), scan.complete) == (3, False)


def test_look_reads_one_file_again(tmp_path: Path) -> None:
    write(tmp_path, "Makefile")
    scan = Scan(root=tmp_path, skipped=[])
    assert scan.look("Makefile") == look(tmp_path)["Makefile"]
    assert scan.look("gone.sh") is None
