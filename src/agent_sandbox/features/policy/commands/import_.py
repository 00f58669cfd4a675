"""`agent-sandbox policy import FILE...`."""

import re
from pathlib import Path
from typing import Annotated

from typer import Argument

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.terminal.output import emit, say
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.policytools.importing.allow_list import import_allowlist
from agent_sandbox.policytools.importing.old_policy import import_policies
from agent_sandbox.policytools.importing.records import Imported
from agent_sandbox.problems import Problem, UserError

Files = Annotated[
    list[Path],
    Argument(help="An allow-list, or the layers of a policy, lowest first.", metavar="FILE"),
]
POLICY = re.compile(r"^(?:services|domains|version)\s*:", re.MULTILINE)


def import_(files: Files) -> int:
    """Print the files as one policy in our language; notes report what changes its meaning.

    Exit 1 if anything was left out.
    """
    texts = [(str(file), decode_policy(read_policy(file), file=str(file))) for file in files]
    found = _imported(texts)
    emit(found.text().removesuffix("\n"))
    for note in found.notes:
        say(f"{note.where}: {note.what}")
    left_out = sum(note.left_out for note in found.notes)
    if left_out:
        written = f"{found.size} {'entry' if found.size == 1 else 'entries'} written"
        say(f"{written}, {left_out} left out: this is not the whole policy")
    return FIXABLE if left_out else DONE


def _imported(texts: list[tuple[str, str]]) -> Imported:
    policies = [file for file, text in texts if file.endswith((".yaml", ".yml")) or POLICY.search(text)]
    if len(policies) == len(texts):
        return import_policies(texts, known=shipped_services())
    if len(texts) == 1:
        ((file, text),) = texts
        return import_allowlist(text, file=file)
    what, hint = "an allow-list cannot be combined with other files", "import it alone"
    raise UserError(Problem(where=file, what=what, hint=hint) for file, _ in texts if file not in policies)
