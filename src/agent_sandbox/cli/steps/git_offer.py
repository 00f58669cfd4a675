"""Show the git settings that the agent wanted to save, and save or drop them."""

import os
from collections.abc import Iterator
from pathlib import Path

from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.cli.terminal.question import answer_to
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.runtime.protect.offered_settings import Offer, forget_offer, save_offer

# The argument of `review` that names them.
SETTINGS = ".git/config"
WHY = "settings that the agent wanted to save in your repository"
REFUSED = "refused settings could run a program or connect elsewhere: to save one anyway, run `git config` yourself"
QUESTION = "Save the new settings? [y]es, [n]ot now, [d]rop:"
ONLY_REFUSED = "Drop these settings? [d]rop, [n]ot now:"


def as_lines(offer: Offer) -> Iterator[str]:
    """Yield the settings as text."""
    yield styled(("git", "title"), f"  {WHY}")
    for key, value in offer.offered:
        yield styled("  new      ", (key, "title"), f" = {value}")
    for key, value in offer.refused:
        yield styled("  refused  ", (key, "title"), f" = {value}" if value else "")
    if offer.refused:
        yield styled("  ", (REFUSED, "warn"))


def as_json(offer: Offer | None) -> dict[str, list[list[str]]]:
    """Return the settings for `--json`."""
    both = {"offered": offer.offered, "refused": offer.refused} if offer else {"offered": (), "refused": ()}
    return {name: [list(one) for one in settings] for name, settings in both.items()}


def act(root: Path, offer: Offer, *, accept: bool) -> None:
    """Save what is offered, or drop all of it; raise UserError if the repository's settings changed meanwhile."""
    if not accept:
        forget_offer(offer)
        say(f"removed {offer.kept[0] / offer.kept[1]}")
    elif offer.offered:
        save_offer(root, os.environ, offer)
        say(f"saved in {offer.path}: {', '.join(key for key, _ in offer.offered)}")


def ask(root: Path, offer: Offer) -> bool:
    """Ask whether to save what is offered; return whether something is left to decide."""
    emit_lines(as_lines(offer))
    answer = (answer_to(QUESTION if offer.offered else ONLY_REFUSED) or "")[:1]
    if answer == "d" or (answer == "y" and offer.offered):
        act(root, offer, accept=answer == "y")
        return False
    return bool(offer.offered)
