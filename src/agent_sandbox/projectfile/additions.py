"""What a project file adds to the image of its agents."""

import re
from collections.abc import Mapping

from agent_sandbox.images import OWN_BASE, Additions
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.browser import CONTROLLERS, PACKAGES, npm_with
from agent_sandbox.projectfile.checks import place_in
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.stack.engine import BUILD_KEY

FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", re.IGNORECASE | re.MULTILINE)
STARTS = (f"${{{OWN_BASE}}}", f"${OWN_BASE}")


def additions(spec: ProjectSpec, texts: Mapping[str, str], *, file: str) -> Additions:
    """Return the additions; `texts` has its build file by name. Raise UserError if it does not fit."""
    text = ""
    if spec.build_file is not None:
        folder, _, own = file.rpartition("/")
        where = f"{folder}/{spec.build_file}"
        if spec.build_file not in texts:
            at = place_in(texts.get(own, ""), file, BUILD_KEY)
            raise UserError([Problem(where=at, what=f"`{BUILD_KEY}` names a file that does not exist: {where}")])
        text = texts[spec.build_file]
        _require_base(text, where)
    npm = npm_with(spec.tools.npm, CONTROLLERS[spec.browser]) if spec.browser else spec.tools.npm
    browser = tuple(one for one in PACKAGES if spec.browser and one not in spec.packages)
    return Additions(packages=spec.packages, browser=browser, npm=npm, pip=spec.tools.pip, build_file=text)


def _require_base(text: str, where: str) -> None:
    bases = [match[1] for match in FROM.finditer(text)]
    if not bases or bases[-1] not in STARTS:
        hint = f"the agents' image is the base: write `FROM {STARTS[0]}`"
        raise UserError([Problem(where=where, what="its last stage does not start from the agents' image", hint=hint)])
