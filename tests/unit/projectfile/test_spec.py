from typing import override

from agent_sandbox.projectfile.spec import MODELS, LimitsSpec, ProjectSpec
from agent_sandbox.stack.limits import LIMITS


def test_each_limit_has_a_key() -> None:
    assert set(LimitsSpec.model_fields) == set(LIMITS)
    assert LimitsSpec(memory="4g").texts == {"memory": "4g"}


def test_each_nested_model_is_listed_by_a_key_of_a_model() -> None:
    assert set(MODELS) - {""} <= {key for model in MODELS.values() for key in model.model_fields}


class Counted(str):
    """A text that counts comparisons."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)


def test_validates_a_long_list_of_agents_with_few_comparisons() -> None:
    ProjectSpec.model_validate({"agents": [Counted(number) for number in range(1000)]})
    assert Counted.compared <= 1000
