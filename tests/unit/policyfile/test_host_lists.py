from pathlib import Path

import pytest

from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.host_lists import load_host_list
from agent_sandbox.problems import UserError


def test_a_policy_allows_the_hosts_of_its_list(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("a.test\n")
    (tmp_path / "policy.yaml").write_text("version: 1\ndomains_file: hosts.txt\n")
    policy = load_policy(tmp_path / "policy.yaml")
    (rule,) = policy.index.rules_for("a.test")
    assert (str(rule.origin), policy.index.rules_for("b.test")) == ("policy.yaml:2", ())


def test_reports_a_problem_in_a_host_list_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("a.test\n*\n")
    with pytest.raises(UserError) as caught:
        load_host_list(tmp_path / "hosts.txt")
    assert str(caught.value) == f"{tmp_path}/hosts.txt:2: `*` is not possible in a host list; name the hosts"
