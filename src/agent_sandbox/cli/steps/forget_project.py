"""Forget a project whose stack was removed."""

import os

from agent_sandbox.backends.project import Project
from agent_sandbox.runtime.host.settings import forget_settings
from agent_sandbox.runtime.policies.learning import forget_recording
from agent_sandbox.runtime.project.clone_record import Clone, forget_clone
from agent_sandbox.runtime.project.trust_store import open_store
from agent_sandbox.runtime.sources.recipes import recipes_of


def forget_project(project: Project, clone: Clone | None) -> None:
    """Remove what is stored for the project on the host machine; of a clone, all of it."""
    recipes_of(project.root, os.environ).forget()
    forget_settings(project.name, os.environ)
    forget_recording(project.root, os.environ)
    if clone:
        open_store(os.environ).forget(project.root)
        forget_clone(clone)
