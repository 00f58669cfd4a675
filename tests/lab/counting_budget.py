"""A search budget that counts."""

from typing import override

from agent_sandbox.proxy.secrets.search import SearchBudget


class CountingBudget(SearchBudget):
    """Counts the steps of a search, also those beyond the budget."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0

    @override
    def spend(self, steps: int = 1) -> None:
        self.spent += steps
        super().spend(steps)
