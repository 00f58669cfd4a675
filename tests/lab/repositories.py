"""Repositories as git leaves them, made without git: a test gives only the parts that matter to it."""

import json
from pathlib import Path

from agent_sandbox.stack.containers import PROTECTED


def bare(place: Path) -> Path:
    """Make what git takes for a repository."""
    for name in ("objects", "refs"):
        (place / name).mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    return place


def repository(project: Path) -> Path:
    """Make a project a repository, with settings and hooks; return its `.git`."""
    git = bare(project / ".git")
    (git / "config").write_text("[core]\n\tbare = false\n")
    (git / "hooks").mkdir()
    return git


def worktree(project: Path, common: Path, name: str = "feature") -> Path:
    """Make a project a worktree of a repository, as `git worktree add` does; return its directory there."""
    own = common / "worktrees" / name
    own.mkdir(parents=True, exist_ok=True)
    for file, text in {
        "HEAD": f"ref: refs/heads/{name}",
        "commondir": "../..",
        "gitdir": str(project / ".git"),
    }.items():
        (own / file).write_text(f"{text}\n")
    project.mkdir(exist_ok=True)
    (project / ".git").write_text(f"gitdir: {own}\n")
    return own


def worktree_project(tmp_path: Path) -> tuple[Path, Path]:
    """Make a worktree whose compose file mounts its repository."""
    (tmp_path / "main").mkdir()
    common = repository(tmp_path / "main")
    project = tmp_path / "feature"
    worktree(project, common)
    read = [str(common)]
    read += [f"{common}/worktrees/feature/{name}" for name in ("commondir", "gitdir")]
    volumes = [{"target": path, "read_only": True} for path in ("/workspace/.devcontainer", "/workspace/.git", *read)]
    environment = {PROTECTED: "\n".join(f"read {path}" for path in read)}
    (project / ".devcontainer").mkdir()
    document = {"services": {"agent": {"volumes": volumes, "environment": environment}}}
    (project / ".devcontainer" / "docker-compose.yml").write_text(json.dumps(document))
    return project, common
