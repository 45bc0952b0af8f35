"""Compute accounts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.compute import account, training_operations

CHIP = {"count": 10, "peak": 1e12, "hours": 100, "utilisation": 0.5}
CAPACITY = 10 * 1e12 * 3600 * 100 * 0.5


def log(utilisation: float) -> dict[str, float]:
    return {**CHIP, "utilisation": utilisation}


def test_dense_transformer() -> None:
    # 70 thousand million parameters on 1.4 million million tokens.
    assert training_operations(70e9, 1.4e12) == pytest.approx(5.88e23)


def test_findings() -> None:
    used = 10 * 1e12 * 3600 * 100 * 0.4
    explained = account([{"operations": 0.95 * used}], [CHIP], [log(0.4)])
    assert explained.finding == "explained"
    assert explained.capacity == pytest.approx(CAPACITY)
    assert explained.used == pytest.approx(used)
    assert explained.unexplained == pytest.approx(0.05)
    assert account([{"operations": 0.8 * used}], [CHIP], [log(0.4)]).finding == "unexplained compute"
    assert account([{"operations": 0.8 * used}], [CHIP], [log(0.4)], 0.25).finding == "explained"
    assert account([{"operations": 1.2 * used}], [CHIP], [log(0.4)]).finding == "incomplete logs"
    assert account([{"operations": used}], [CHIP], [log(0.6)]).finding == "undeclared chips"
    both = account([{"parameters": 1e9, "tokens": used / 12e9}, {"operations": used / 2}], [CHIP], [log(0.4)])
    assert both.unexplained == pytest.approx(0)


@pytest.mark.parametrize(
    ("runs", "logs", "reason"),
    [
        ([{"parameters": 1}], [log(0.4)], "tokens of a run is None"),
        ([{"operations": -1}], [log(0.4)], "not negative"),
        ([{"operations": True}], [log(0.4)], "is True"),
        ([], [log(1.4)], "share from 0 to 1"),
        ([], [], "no operations at all"),
    ],
)
def test_accounts_that_cannot_be_drawn(runs: Any, logs: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        account(runs, [CHIP], logs)


def test_tolerance_is_a_share() -> None:
    with pytest.raises(InputError, match="tolerance is 1"):
        account([], [CHIP], [log(0.4)], 1)
