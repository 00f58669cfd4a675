"""Forget a project whose stack was removed."""

import os

from agent_sandbox.features.policy.learning import forget_recording
from agent_sandbox.features.secrets.sources.recipes import recipes_of
from agent_sandbox.host.settings import forget_settings
from agent_sandbox.project.clone_record import Clone, forget_clone
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store


def forget_project(project: Project, clone: Clone | None, *, trust: bool = False) -> None:
    """Remove what the host machine stores for a project; its trust only for a clone, or with `trust`."""
    recipes_of(project.root, os.environ).forget()
    forget_settings(project.name, os.environ)
    forget_recording(project.root, os.environ)
    if clone or trust:
        open_store(os.environ).forget(project.root)
    if clone:
        forget_clone(clone)
