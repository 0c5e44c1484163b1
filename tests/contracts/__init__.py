"""Checks of the contracts of `fitrag_integrations.ports`; the folder can be copied and used alone.

Each function takes a factory that makes a fresh object and gives its checks, one callable each:

    @pytest.mark.parametrize("check", scorer_checks(MyScorer), ids=str)
    def test_my_scorer(check):
        check()

No test framework is needed to call them. A broken promise raises ``ContractError``, an
``AssertionError`` that says what was asked, what came and what is promised.
"""

from __future__ import annotations

from contracts.batches import Check, ContractError
from contracts.methods import compressor_checks, method_checks
from contracts.models import (
    evaluator_checks,
    gate_checks,
    retriever_checks,
    scorer_checks,
)

__all__ = [
    "Check",
    "ContractError",
    "compressor_checks",
    "evaluator_checks",
    "gate_checks",
    "method_checks",
    "retriever_checks",
    "scorer_checks",
]
