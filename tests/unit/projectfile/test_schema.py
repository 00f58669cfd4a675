import yaml
from jsonschema import Draft202012Validator

from agent_sandbox.features.stack.init.project_edit import NEW
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.schema import project_schema
from table_tests import each

SCHEMA = project_schema(("first", "second"))


def test_the_schema_is_a_valid_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@each(
    "text",
    [
        "",
        NEW,
        "agents: [first]\nlimits: {memory: 4g, cpus: 1.5, pids: 99}\nide: none\nname: a",
        "agents:\nlimits:\n",
        "limits: {cpus: 2}",
        "browser: true\nmcp: {a: {command: x, args: [b]}, c: {url: 'https://h.test/'}}",
        "mcp:\n",
        "mcp: {a: {comand: x}}",
        "browser: playwright",
        "browser: 1",
        "browser: 3",
        "browser: [true]",
        "agents: []",
        "agents: [third]",
        "limit: {}",
        "limits: {memry: 1g}",
        "limits: {memory: 4}",
        "ide: vim",
        "version: 2",
        "name: 3",
    ],
)
def test_schema_and_parser_accept_the_same_files(text: str) -> None:
    value = yaml.safe_load(text)
    try:
        parse_project_file(text, file="f", agents=("first", "second"))
    except UserError:
        valid = False
    else:
        valid = True
    assert Draft202012Validator(SCHEMA).is_valid({} if value is None else value) is valid
