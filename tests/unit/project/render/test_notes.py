import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.project.render.notes import notes
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, POLICY, STACK
from agent_sandbox.project.render.policy import Offered
from agent_sandbox.project.render.reconcile import Change, Verdict
from sample_project import AGENTS
from table_tests import each

OFFER = Offer(host="npm.example.test", files=(".npmrc",), schemes=("https",))


def told(
    *,
    devcontainer: str = "{}",
    policy: str = "services: [claude]\n",
    verdict: Verdict = Verdict.UNCHANGED,
    offered: Offered | None = None,
    why: str = "",
    dotenv: Verdict = Verdict.UNCHANGED,
    variables: str = "",
    uses_dotenv: bool = True,
    own_stacks: tuple[str, ...] = (),
    stack: Verdict = Verdict.WRITTEN,
) -> tuple[str, ...]:
    changes = (
        Change(path=STACK, verdict=stack, before="", after=""),
        Change(path=DEVCONTAINER, verdict=Verdict.MERGED, before="", after=devcontainer, why=why),
        Change(path=POLICY, verdict=verdict, before="", after=policy),
        Change(path=DOTENV, verdict=dotenv, before="", after=variables),
    )
    return notes(changes, AGENTS, offered or Offered(), own_stacks, uses_dotenv=uses_dotenv)


def test_prints_no_notes_if_nothing_is_wrong() -> None:
    assert told() == ()


def test_warns_that_a_running_agent_can_write_a_replaced_dotenv() -> None:
    (note,) = told(dotenv=Verdict.MERGED, stack=Verdict.UNCHANGED)
    assert note == ".env was replaced: if the stack is running, run `agent-sandbox up` to make it read-only again"


def test_reports_what_a_merge_replaced() -> None:
    assert told(why='`remoteUser` was "vscode"') == (f'{DEVCONTAINER}: merged; `remoteUser` was "vscode"',)


def test_reports_a_risky_member_with_its_line() -> None:
    what = "`remoteEnv` sets variables in the container; agent-sandbox keeps it"
    assert told(devcontainer='{\n  "remoteEnv": {"A": "1"},\n  "features": {}\n}') == (f"{DEVCONTAINER}:2: {what}",)


def test_an_unreadable_devcontainer_json_has_no_notes() -> None:
    assert told(devcontainer="{") == ()


@pytest.mark.parametrize("policy", ["", "services:\n", "services: [github]\n", "services: [{name: github}]\n"])
def test_reports_a_policy_without_the_agents_service(policy: str) -> None:
    expected = f"{POLICY} does not name the service `claude`: agent-sandbox policy allow claude"
    assert told(policy=policy) == (expected,)


@each("policy", ["services: [{name: claude}]\n", "- a\n", "a: [", "services: [{}]\n", "services: 1"])
def test_a_policy_with_the_agents_service_and_an_unreadable_policy_have_no_notes(policy: str) -> None:
    assert told(policy=policy) == ()


ALONE = (
    "this project's files alone name npm.example.test: not allowed, because anyone may have written them; "
    f"remove the `#` under `domains` in {POLICY} from those that you trust"
)
BOTH = f"{POLICY} allows reading from npm.example.test: this project's files and this machine's configuration name them"
YOURS = f"this project's files name npm.example.test: to allow them, add them under `domains` in {POLICY}"


@each(
    ("offered", "verdict", "expected"),
    [
        (
            Offered(left=(OFFER,)),
            Verdict.WRITTEN,
            (f"this project's files name npm.example.test: see `domains` in {POLICY}",),
        ),
        (Offered(left=(OFFER,), detect=True), Verdict.WRITTEN, (ALONE,)),
        (Offered(allowed=(OFFER,), detect=True), Verdict.WRITTEN, (BOTH,)),
        (Offered(allowed=(OFFER,), left=(OFFER,), detect=True), Verdict.WRITTEN, (BOTH, ALONE)),
        (Offered(detect=True), Verdict.WRITTEN, ()),
        (Offered(left=(OFFER,)), Verdict.UNCHANGED, ()),
        (Offered(left=(OFFER,), detect=True), Verdict.UNCHANGED, (YOURS,)),
        (Offered(allowed=(OFFER,), detect=True), Verdict.UNCHANGED, (YOURS,)),
    ],
)
def test_reports_whether_hosts_named_by_project_files_were_allowed(
    offered: Offered, verdict: Verdict, expected: tuple[str, ...]
) -> None:
    assert told(offered=offered, verdict=verdict) == expected


def test_explains_which_stack_docker_compose_uses_in_a_project_with_a_compose_file() -> None:
    taken = (
        "`docker compose` in this directory uses the sandbox, by .env; "
        "`agent-sandbox init --no-dotenv` gives it back to compose.yaml"
    )
    left = (
        "`docker compose` in this directory still uses compose.yaml; "
        "for the sandbox, use: docker compose --file .devcontainer/docker-compose.yml"
    )
    own = ("compose.yaml",)
    assert told(own_stacks=own) == (taken,)
    assert told(own_stacks=own, uses_dotenv=False) == (left,)
    assert told(own_stacks=own, uses_dotenv=False, stack=Verdict.UPDATED) == ()
    assert told(uses_dotenv=False) == (left.replace("still uses compose.yaml", "does not use the sandbox"),)


def test_warns_about_further_files_in_compose_file() -> None:
    expected = ".env: `COMPOSE_FILE` also names more.yml:b.yml: these files can weaken the sandbox, so check them first"
    assert told(variables=f"COMPOSE_FILE='{STACK}:more.yml:b.yml'\n") == (expected,)
    assert told(variables=f"COMPOSE_FILE={STACK}\n") == ()
    assert told(variables=f"COMPOSE_FILE='{STACK}:more.yml'\n", uses_dotenv=False, stack=Verdict.UNCHANGED) == ()


@each(
    ("verdict", "policy", "expected"),
    [
        (Verdict.WRITTEN, "services: [claude, node]", f"{POLICY} names the service `node`, for package.json"),
        (
            Verdict.UNCHANGED,
            "services: [claude, rust]",
            f"{POLICY} does not name the service `node`, for package.json: agent-sandbox policy allow node",
        ),
    ],
)
def test_lists_the_services_that_the_projects_files_indicate(verdict: Verdict, policy: str, expected: str) -> None:
    assert told(policy=policy, verdict=verdict, offered=Offered(services={"node": ("package.json",)})) == (expected,)


@pytest.mark.parametrize("policy", ["services: [claude, node]", "services: [claude-code, {name: npm}]"])
def test_does_not_report_a_service_that_the_policy_names_by_any_alias(policy: str) -> None:
    assert told(policy=policy, offered=Offered(services={"node": ("package.json",)})) == ()
