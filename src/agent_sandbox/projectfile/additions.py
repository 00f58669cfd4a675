"""What a project file adds to the image of its agents."""

import re
from collections.abc import Mapping

from agent_sandbox.images import OWN_BASE, Additions
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.spec import ProjectSpec

FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", re.IGNORECASE | re.MULTILINE)
STARTS = (f"${{{OWN_BASE}}}", f"${OWN_BASE}")


def additions(spec: ProjectSpec, texts: Mapping[str, str], *, file: str) -> Additions:
    """Return the additions; `texts` has the project's Dockerfile by its name. Raise UserError if it does not fit."""
    text = ""
    if spec.dockerfile is not None:
        where = file.rpartition("/")[0] + f"/{spec.dockerfile}"
        if spec.dockerfile not in texts:
            raise UserError([Problem(where=file, what="`dockerfile` names a file that does not exist", hint=where)])
        text = texts[spec.dockerfile]
        _require_base(text, where)
    return Additions(packages=spec.packages, npm=spec.tools.npm, pip=spec.tools.pip, dockerfile=text)


def _require_base(text: str, where: str) -> None:
    bases = [match[1] for match in FROM.finditer(text)]
    if not bases or bases[-1] not in STARTS:
        hint = f"the agents' image is the base: write `FROM {STARTS[0]}`"
        raise UserError([Problem(where=where, what="its last stage does not start from the agents' image", hint=hint)])
