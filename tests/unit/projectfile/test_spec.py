from agent_sandbox.projectfile.spec import MODELS, LimitsSpec
from agent_sandbox.stack.limits import LIMITS


def test_each_limit_has_a_key() -> None:
    assert set(LimitsSpec.model_fields) == set(LIMITS)
    assert LimitsSpec(memory="4g").texts == {"memory": "4g"}


def test_the_models_are_listed_by_the_key_above() -> None:
    assert set(MODELS) - {""} <= {key for model in MODELS.values() for key in model.model_fields}
