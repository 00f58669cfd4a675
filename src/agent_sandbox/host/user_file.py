"""Read a file of the user's own in `~/.config/agent-sandbox`, with every problem at its place.

Such a file names commands that run on the host machine, or where data is sent. So it must be the user's own, and
outside every project.
"""

import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from agent_sandbox.host.program_path import OUTSIDE, in_project
from agent_sandbox.policyfile.parse.checking import WORDS, unknown_key, validated
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import Problem, UserError

MOST_BYTES = 1 << 18
OTHERS_MAY_WRITE = 0o022
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NO_PARTS: Mapping[str, type[BaseModel]] = {}


def read_user_file[Spec: BaseModel](
    file: Path, root: Path, spec: type[Spec], *, parts: Mapping[str, type[BaseModel]] = NO_PARTS
) -> tuple[Spec, Document]:
    """Return the file by its model, and its document. `parts` are the models of the items of its lists, by key.

    Raise UserError for a file that is not valid, or that others could have written.
    """
    # A value could be a secret that was written in place of its source, so no problem repeats one.
    document = parse_document(decode_policy(_content(file, root), file=str(file)), file=str(file), shows=False)
    words = {
        **WORDS,
        "extra_forbidden": unknown_key({"": spec, **parts}),
        "string_type": lambda _: ("text expected", ""),
        "list_type": lambda _: ("list expected", ""),
        "model_type": lambda _: ("keys and values expected", ""),
    }
    return validated(document, file=str(file), model=spec, context={}, words=words), document


def _content(file: Path, root: Path) -> bytes:
    if file.resolve().is_relative_to(root.resolve()) or in_project(file):
        what = "this file is in a project, where an agent could name commands that run as you"
        raise UserError([Problem(where=str(file), what=what, hint=OUTSIDE)])
    try:
        handle = os.open(file, REGULAR)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise UserError([Problem(where=str(file), what=what, hint="it must be a file, not a link")]) from error
    try:
        found = os.fstat(handle)
        for path, state in ((file, found), (file.parent, file.parent.stat())):
            if state.st_uid != os.geteuid() or state.st_mode & OTHERS_MAY_WRITE:
                what = "others may write here, and so could name commands that run as you"
                raise UserError(
                    [Problem(where=str(path), what=what, hint=f"make it yours: chmod go-w {shlex.quote(str(path))}")]
                )
        if not stat.S_ISREG(found.st_mode):
            raise UserError([Problem(where=str(file), what="not a regular file")])
        content = os.read(handle, MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > MOST_BYTES:
        raise UserError([Problem(where=str(file), what=f"longer than {MOST_BYTES >> 10} KiB")])
    return content
