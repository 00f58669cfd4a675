from agent_sandbox.projectfile.beside_widening import besides_widen
from agent_sandbox.projectfile.parsing import parse_project_file
from table_tests import each

DIGEST = f"postgres:17@sha256:{'0' * 64}"
PULLED = "runs postgres:17, pulled from its registry; without a digest, it can change"
DB = "db: {image: a, expose: [1], links: [x], mem_limit: 1g, environment: {A: b}}, x: {image: a, expose: [2]}"


@each(
    ("now", "before", "lines"),
    [
        ("db: {image: postgres:17}", "", [f"db {PULLED}"]),
        (f"db: {{image: '{DIGEST}'}}", "db: {image: postgres:17}", [f"db runs {DIGEST}, pulled from its registry"]),
        ("db: {build: {dockerfile: D}}", "db: {image: a}", ["db is built with D, which follows"]),
        (
            DB,
            "",
            [
                "db runs a, pulled from its registry; without a digest, it can change",
                "db is reached by the agent on port 1",
                "db reaches x",
                "db runs with its own environment",
                "x runs a, pulled from its registry; without a digest, it can change",
                "x is reached by the agent on port 2",
            ],
        ),
        (DB, DB, []),
        ("", DB, []),
        (
            "db: {image: a}, x: {image: a, expose: [2]}",
            DB,
            ["db runs with its own environment", "db may use memory 2g instead of 1g"],
        ),
        (
            DB.replace("[1]", "[1, 3, 4]").replace("1g", "3g").replace("A: b", "A: c"),
            DB,
            [
                "db is reached by the agent on port 3, 4",
                "db runs with its own environment",
                "db may use memory 3g instead of 1g",
            ],
        ),
        ("db: {image: a, volumes: ['d:/d']}", "db: {image: a}", ["db runs with its own volumes"]),
        ("db: {image: a, user: b, command: [c]}", "db: {image: a}", ["db runs with its own user, command"]),
    ],
)
def test_lists_each_widening_of_a_service(now: str, before: str, lines: list[str]) -> None:
    specs = (parse_project_file(f"beside: {{{text}}}", file="f").beside for text in (now, before))
    assert list(besides_widen(*specs)) == [f"beside: {line}" for line in lines]
