from agent_sandbox.policy.planned import PLANNED
from agent_sandbox.policy.spec import MODELS


def test_a_word_is_built_or_planned_and_never_both() -> None:
    built = {(where, key) for where, model in MODELS.items() for key in model.model_fields}
    assert PLANNED & built == set()
    assert {where for where, _ in PLANNED} <= set(MODELS)
