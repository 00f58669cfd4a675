import pytest
import yaml

from agent_sandbox.policyfile.text import document
from agent_sandbox.policyfile.text.document import Document, Place, parse_document, syntax_problem
from agent_sandbox.problems import UserError
from table_tests import each

LOADERS = [yaml.SafeLoader, yaml.CSafeLoader]
SAMPLE = """\
domains:
  - a.test
  - host: "b.test"
    ports: [443, 80]
settings:
"""


@pytest.mark.parametrize("loader", LOADERS)
def test_values_keep_their_places(loader: type[yaml.SafeLoader], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "LOADER", loader)
    expected = Document(
        value={"domains": ["a.test", {"host": "b.test", "ports": [443, 80]}], "settings": None},
        places={
            (): Place(line=1, column=1),
            ("domains",): Place(line=2, column=3),
            ("domains", 0): Place(line=2, column=5),
            ("domains", 1): Place(line=3, column=5),
            ("domains", 1, "host"): Place(line=3, column=11),
            ("domains", 1, "ports"): Place(line=4, column=12),
            ("domains", 1, "ports", 0): Place(line=4, column=13),
            ("domains", 1, "ports", 1): Place(line=4, column=18),
            ("settings",): Place(line=5, column=10),
        },
        keys={
            ("domains",): Place(line=1, column=1),
            ("domains", 1, "host"): Place(line=3, column=5),
            ("domains", 1, "ports"): Place(line=4, column=5),
            ("settings",): Place(line=5, column=1),
        },
        problems=(),
    )
    assert parse_document(SAMPLE, file="policy.yaml") == expected


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "---\n...\n"])
def test_an_empty_file_has_no_value_and_no_problems(text: str) -> None:
    got = parse_document(text, file="policy.yaml")
    assert (got.value, got.problems) == (None, ())


@pytest.mark.parametrize("text", ["a: [x]\r\nb: y", "%YAML 1.2\n---\na: [x]\nb: y\n...\n", "{a: ['x'], 'b': \"y\"}"])
def test_other_yaml_spellings_give_the_same_value(text: str) -> None:
    assert parse_document(text, file="policy.yaml").value == {"a": ["x"], "b": "y"}


def test_quoted_values_are_text() -> None:
    assert parse_document("""['no', "1", '', "null"]""", file="policy.yaml").value == ["no", "1", "", "null"]


@each(
    ("text", "messages"),
    [
        ("a: 1\nb: 2\na: 3", ["policy.yaml:3:1: duplicate key 'a'; keep one of them"]),
        ("a: &x 1", ["policy.yaml:1:4: an anchor (`&x`); remove it; write each value where it is used"]),
        ("a: *x", ["policy.yaml:1:4: an alias (`*x`); write the value out"]),
        ("<<: {}", ["policy.yaml:1:1: a merge key (`<<`); write the entry out"]),
        ("'<<': {}", []),
        ("a: !!str 1", ["policy.yaml:1:4: a tag ('tag:yaml.org,2002:str'); remove it; only plain values are allowed"]),
        (
            "a: !!python/name:id [x]",
            ["policy.yaml:1:4: a tag ('tag:yaml.org,2002:python/name:id'); remove it; only plain values are allowed"],
        ),
        ("&x a: 1", ["policy.yaml:1:1: an anchor (`&x`); remove it; write each value where it is used"]),
        ("a: no", ["policy.yaml:1:4: YAML parsers differ on 'no'; quote it: \"no\", or write `false`"]),
        (f"a: {'9' * 81}", [f"policy.yaml:1:4: YAML parsers differ on '{'9' * 80}...'; quote it"]),
        (f"a: *{'x' * 81}", [f"policy.yaml:1:4: an alias (`*{'x' * 80}`); write the value out"]),
    ],
)
def test_reports_yaml_on_which_parsers_differ_with_its_place(text: str, messages: list[str]) -> None:
    assert [str(problem) for problem in parse_document(text, file="policy.yaml").problems] == messages


def test_ignores_the_second_value_of_a_duplicate_key() -> None:
    assert parse_document("a: 1\na: [2, {b: 3}]\nc: 4", file="policy.yaml").value == {"a": 1, "c": 4}


@each(
    ("text", "message"),
    [
        ("a: 1\n---\nb: 2", "policy.yaml:3:1: a second document; keep one document: remove `---`"),
        (
            "- {{x}}.test",
            "policy.yaml:1:4: a key that is not a word; a key is a word before a `:`; quote text with braces",
        ),
        (
            "? [a]\n: b",
            "policy.yaml:1:3: a key that is not a word; a key is a word before a `:`; quote text with braces",
        ),
        ("[" * 100_000, "policy.yaml:1:18: more than 16 levels deep; write it with fewer levels"),
        ("a: [\n", "policy.yaml:2:1: invalid YAML: did not find expected node content"),
        ("domains:\n\t- a.test\n", "policy.yaml:2:1: a tab where YAML needs spaces; indent with spaces"),
        (
            "domains:\n  - *.example.com # all\n",
            (
                "policy.yaml:2:6: invalid YAML: did not find expected alphabetic or numeric character; "
                'quote a word that begins with `*`: "*.example.com"'
            ),
        ),
        (
            "domains:\n  - host: @x\n",
            (
                "policy.yaml:2:11: invalid YAML: found character that cannot start any token; "
                'quote a word that begins with `@`: "@x"'
            ),
        ),
        ("domains: [a.test\nallow: []", "policy.yaml:2:6: invalid YAML: did not find expected ',' or ']'"),
        ('domains: ["a.test', "policy.yaml:1:18: invalid YAML: found unexpected end of stream"),
        ('domains: ["a.test\n', "policy.yaml:2:1: invalid YAML: found unexpected end of stream"),
    ],
)
def test_explains_invalid_yaml_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_document(text, file="policy.yaml")
    assert str(error.value) == message


def test_reports_the_same_place_without_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "LOADER", yaml.SafeLoader)
    with pytest.raises(UserError, match=r"^policy\.yaml:2:1: a tab where YAML needs spaces; indent with spaces$"):
        parse_document("domains:\n\t- a.test\n", file="policy.yaml")


def test_an_error_without_a_place_keeps_its_message() -> None:
    assert str(syntax_problem(yaml.YAMLError("odd"), "", "policy.yaml")) == "policy.yaml: invalid YAML: odd"
