"""Check that a build reaches the registries, with the build's CA and through the machine's mirrors."""

from datetime import UTC, datetime

from agent_sandbox.backends.verbs import Drop
from agent_sandbox.images import registries_image
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.driver.protocol import Machine, Row, Stage
from agent_sandbox.runtime.driver.result import CheckResult, fail, ok
from agent_sandbox.runtime.init.build_inputs import build_of


def builds(machine: Machine) -> CheckResult:
    """Build an image with one package of Debian's, npm's and PyPI's, and remove it; the first time takes minutes."""
    driver, base = machine.driver, machine.project.base_image if machine.has_project else ""
    image = registries_image(datetime.now(UTC).isoformat(), base)
    build = build_of((image,), extra_ca=None)
    try:
        driver.execute(driver.planner.build(build))
    except UserError as error:
        (problem,) = error.problems
        return fail("builds", problem.what, problem.hint)
    driver.execute(driver.planner.drop(Drop(images=(image.name,))))
    return ok("builds", "a build can download packages of Debian, npm and PyPI")


BUILDS = Row(name="builds", stage=Stage.START, check=builds, engine=True)
