import pytest

from agent_sandbox.features.clones.fetched import Fetched, as_json
from clone_worlds import fetched_clone


@pytest.mark.parametrize(
    ("fetched", "has_all"),
    [
        (fetched_clone(), True),  # ignored files can be made again
        (fetched_clone(changed=("a.txt",)), False),
        (fetched_clone(refused="z"), False),
        (fetched_clone(complete=False), False),
    ],
)
def test_has_all_is_false_with_changed_files_refused_branches_or_an_incomplete_listing(
    fetched: Fetched, *, has_all: bool
) -> None:
    assert fetched.has_all == has_all


def test_json_has_references_commits_and_unfetched_files_and_branches() -> None:
    assert as_json(fetched_clone(changed=("a.txt",), refused="z", complete=False)) == {
        "name": "fix-1",
        "branches": [
            {
                "branch": "main",
                "ref": "refs/remotes/box/fix-1/main",
                "commit": "a" * 40,
                "before": None,
                "commits": 2,
                "new": 2,
                "rewritten": False,
                "stash": False,
            }
        ],
        "refused": [{"branch": "z", "reason": "why"}],
        "uncommitted": ["a.txt"],
        "ignored": ["node_modules/"],
        "complete": False,
    }
