from typing import override

from agent_sandbox.projectfile.spec import MODELS, LimitsSpec, ProjectSpec
from agent_sandbox.stack.limits import LIMITS


def test_each_limit_has_a_key() -> None:
    assert set(LimitsSpec.model_fields) == set(LIMITS)
    assert LimitsSpec(memory="4g").texts == {"memory": "4g"}


def test_the_models_are_listed_by_the_key_above() -> None:
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


def test_a_long_list_of_agents_is_not_compared_name_by_name() -> None:
    ProjectSpec.model_validate({"agents": [Counted(number) for number in range(1000)]})
    assert Counted.compared <= 1000
