"""The claims' experiments do what their statements say, on small settings."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from workingpapers.foundations.progress import silent
from workingpapers.governance.arms_control.claim import CLAIM, CLAIMS, CUT, FALSE_POSITIVES, REFUSAL, TRANSCRIPT
from workingpapers.governance.arms_control.experiments_evidence import inspect, refuse
from workingpapers.replication.claim import Claim

TINY: dict[str, dict[str, Any]] = {
    "caught_as_planned": {"items": 60, "violations": (2, 5), "trials": 300},
    "refusal": {"items": 12, "changes": 40},
    "forged_training": {"segments": 8, "every": 4, "forged": 4, "draws": 50},
    "false_positives": {**FALSE_POSITIVES.size("smallest").settings, "replications": 5},
    "power": {**FALSE_POSITIVES.size("smallest").settings, "rates": (0.02, 0.05), "replications": 5},
    "cut_first": {"systems": 20, "actors": 4, "share": 0.2},
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_arms_repeat_exactly_and_can_be_sent_to_workers(claim: Claim) -> None:
    for arm in claim.arms.values():
        copied = pickle.loads(pickle.dumps(arm))
        first = arm(3, silent, **TINY[claim.name])
        assert copied(3, silent, **TINY[claim.name]) == first
        assert claim.metric in first
        assert claim.counts is None or first[claim.counts] > 0


def test_inspection_meets_its_formula_and_a_fixed_schedule_nothing() -> None:
    found = inspect(0, silent, plan="exact", draw="joint", **TINY[CLAIM.name])
    error = np.sqrt(found["planned"] * (1 - found["planned"]) / found["trials"])
    assert abs(found["caught"] - found["planned"]) < 4 * error
    assert found["false_alarms"] == 0
    assert inspect(0, silent, plan="exact", draw="fixed", **TINY[CLAIM.name])["caught"] == 0


def test_only_the_verifier_refuses_everything() -> None:
    full = refuse(0, silent, verifier="full", **TINY[REFUSAL.name])
    assert full["refused"] == full["honest_accepted"] == 1
    for weaker in ("signature", "hash list"):
        found = refuse(0, silent, verifier=weaker, **TINY[REFUSAL.name])
        assert found["honest_accepted"] == 1
        assert found["replayed"] == found["reordered"] == 0


def test_re_running_finds_every_forged_segment_and_detection_follows_the_formula() -> None:
    settings = {**TRANSCRIPT.size("smallest").settings, "draws": 2000}
    found = TRANSCRIPT.arms["re-run"](1, silent, **settings)
    assert found["balanced_error"] == 0
    planned = found["planned_detection"]
    assert abs(found["detection"] - planned) < 4 * np.sqrt(planned * (1 - planned) / 2000)
    assert TRANSCRIPT.arms["hashes only"](1, silent, **settings)["forged_accepted"] == 1


def test_perron_cut_is_hardly_ever_worse_than_a_random_one() -> None:
    found = CUT.arms["Perron ranking"](0, silent, systems=200, actors=5, share=0.2)
    assert found["at_least_random"] >= 0.9
    assert found["fall"] > CUT.arms["random reaction"](0, silent, systems=200, actors=5, share=0.2)["fall"]
