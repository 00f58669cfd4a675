"""Ask the registry that this machine's npm uses for the newest version of an agent."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_sandbox.agents.manifest import NpmPackage
from agent_sandbox.agents.pin import INTEGRITY, VERSION, Pin
from agent_sandbox.bounded_json import read_json
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.process import TIMED_OUT, Finished, capture

SECONDS = 60.0
FIELDS = ("name", "version", "dist.integrity")
CODE = re.compile(r"^npm (?:ERR!|error) code (\S{1,40})$", re.MULTILINE)
NO_NPM = "npm is not installed on this machine, so nobody can be asked for the newest version"
NO_NPM_HINT = "install Node.js with npm; its configuration says which registry to ask"
NO_ANSWER_HINT = "check the network and npm's configuration (npm config list); nothing was changed"

type Ask = Callable[[NpmPackage], Finished | None]


def asking_npm(environment: Mapping[str, str]) -> Ask:
    """Return the function that asks npm about a package, with these variables changed; None if npm is missing."""
    program = shutil.which("npm", path=environment.get("PATH", os.defpath))

    def ask(package: NpmPackage) -> Finished | None:
        if program is None:
            return None
        argv = (program, "view", f"{package.package}@latest", *FIELDS, "--json")
        return capture(argv, cwd=Path("/"), environment=environment, timeout=SECONDS)

    return ask


def newest(name: str, package: NpmPackage, ask: Ask) -> Pin:
    """Return the newest version of the agent `name` from npm; raise UserError if there is no valid answer."""
    answer = ask(package)
    if answer is None:
        raise UserError([Problem(where=name, what=NO_NPM, hint=NO_NPM_HINT)])
    if answer.code:
        code = CODE.search(answer.err)
        unknown = answer.err if answer.code == TIMED_OUT else f"exit code {answer.code}"
        why = printable(code[1] if code else unknown)
        what = f"npm cannot look up {package.package}: {why}"
        raise UserError([Problem(where=name, what=what, hint=NO_ANSWER_HINT)])
    try:
        said = read_json(answer.out)
        found, version, integrity = (str(said[field]) for field in FIELDS)
    except (ValueError, LookupError, TypeError):
        found = version = integrity = ""
    if found != package.package or not (VERSION.fullmatch(version) and INTEGRITY.fullmatch(integrity)):
        what = f"npm's answer about {package.package} has no version with a sha512 hash"
        raise UserError([Problem(where=name, what=what, hint=NO_ANSWER_HINT)])
    return Pin(version=version, integrity=integrity)
