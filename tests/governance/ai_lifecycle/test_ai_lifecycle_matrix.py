"""The matrix engine, against hand, Brightway and the closed forms."""

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.ai_lifecycle import inventory
from workingpapers.governance.ai_lifecycle.assessment import assess
from workingpapers.governance.ai_lifecycle.attribution import cost_per_unit
from workingpapers.governance.ai_lifecycle.impacts import evaluate, matrices
from workingpapers.governance.ai_lifecycle.matrix import System, solve, solve_with_brightway

LOOP = System(
    np.array([[1, -0.5, 0], [0, 1, -2], [-0.1, 0, 1]]), np.array([[0.4, 1, 3]]), np.eye(1), np.array([0.0, 0, 1])
)


def test_loop_of_three():
    found = solve(LOOP)
    assert found.scaling == pytest.approx([1 / 0.9, 2 / 0.9, 1 / 0.9])
    assert found.scores == pytest.approx([6.0], abs=1e-12)
    assert found.contributions.sum() == pytest.approx(6.0)


def test_brightway_agrees():
    pytest.importorskip("bw2calc")
    rng = np.random.default_rng(3)
    A = np.eye(6) - 0.2 * rng.random((6, 6)) * (1 - np.eye(6))
    system = System(A, rng.random((4, 6)), rng.random((2, 4)), rng.random(6))
    assert solve_with_brightway(LOOP) == pytest.approx([6.0])
    assert solve_with_brightway(system) == pytest.approx(solve(system).scores, rel=1e-10)


def test_brightway_agrees_on_a_study(study):
    pytest.importorskip("bw2calc")
    system = matrices(study, study.medians)
    assert solve_with_brightway(system) == pytest.approx(solve(system).scores, rel=1e-10)


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (System(np.eye(2), np.eye(2), np.eye(2), np.ones(3)), "Shapes"),
        (System(-np.eye(2), np.eye(2), np.eye(2), np.ones(2)), "output -1"),
        (System(np.array([[1.0, -1], [-1, 1]]), np.eye(2), np.eye(2), np.ones(2)), "singular"),
    ],
)
def test_systems_that_cannot_be_solved(system, said):
    with pytest.raises(InputError, match=said):
        solve(system)


def test_closed_forms_are_the_matrix_solution_with_a_loop_of_processes(document):
    document["process"]["monitoring"] = {
        "stage": "idle", "scope": "life", "facility": "hall", "electricity": "40 kWh", "inputs": {"training": 1e-3},
    }  # fmt: skip
    document["process"]["training"]["inputs"] = {"monitoring": 2.0}
    study = inventory.parse(document)
    shares = {"search": 2 / 3}
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = {name: value * float(np.exp(0.3 * rng.standard_normal())) for name, value in study.medians.items()}
        found = evaluate(study, {name: np.array([value]) for name, value in values.items()}, shares)
        assert found.totals[0] == pytest.approx(solve(matrices(study, values, shares)).scores, rel=1e-12)
    assert assess(study, samples=100).matrix_gap < 1e-12


def test_formula_of_the_paper_is_the_matrix_result(document):
    del document["process"]["search"]["shared"], document["process"]["serving"]["flows"]
    study = inventory.parse(document)
    v = study.medians
    per_kwh = 1.2 * 0.384
    hourly = (164 + 5700 / 8) / (4 * 8760 * 0.6)
    training_hours = 6 * 7e9 * 2e11 / (989e12 * 0.4) / 3600
    serving_hours = 30 / 3600 / 1000
    expected = cost_per_unit(
        inference=serving_hours * 0.42 * per_kwh,
        use_time=serving_hours,
        embodied=876.5,
        lifespan=4 * 8760 * 0.6,
        experimentation=900 * (0.48 * per_kwh + hourly),
        training=training_hours * (0.7 * 0.8 * per_kwh + hourly),
        volume=1e6,
    )
    k = assess(study, samples=100).categories.index("gwp")
    assert solve(matrices(study, v)).scores[k] == pytest.approx(expected, rel=1e-12)
    assert assess(study, samples=100).totals["gwp"] == pytest.approx(expected, rel=1e-12)


def test_an_impossible_loop_is_refused(document):
    document["process"]["training"]["inputs"] = {"search": 2.0}
    document["process"]["search"]["inputs"] = {"training": 1.0}
    with pytest.raises(InputError, match="loop"):
        assess(inventory.parse(document), samples=100)
