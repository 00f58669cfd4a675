"""Record what is reviewed when a stack first starts, and mention what is to review."""

import os
from pathlib import Path

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.counted import counted
from agent_sandbox.features.protect.offered_settings import find_offer
from agent_sandbox.features.review.changes import find_changes, load_baseline, save_baseline, take


def record_first_review(root: Path) -> None:
    """Record the project's files as reviewed if they never were: no agent has worked in it yet."""
    if load_baseline(root, os.environ) is None:
        save_baseline(root, os.environ, take(root))


def report_unreviewed(root: Path) -> None:
    """Print one line if files that would run outside changed, and one if the agent wanted to save git settings."""
    baseline = load_baseline(root, os.environ)
    found = find_changes(root, baseline) if baseline else None
    if found and not found.complete:
        say(("review:", "warn"), " the project has too many files to look at all: agent-sandbox review")
    elif found and found.changes:
        files = counted(len(found.changes), "file")
        say(("review:", "warn"), f" {files} that would run outside changed: agent-sandbox review")
    offer = find_offer(root) if baseline else None
    if offer and offer.offered:
        say(("review:", "warn"), " the agent wanted to save git settings: agent-sandbox review")
