"""Polytopes: projection against a QP solver, linear step, separation, shrinking, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from workingpapers.foundations.errors import InputError
from workingpapers.optimization.dr_submodular import Polytope, box, budget, partition


def random_polytope(rng, rows, dimension):
    matrix = rng.uniform(0, 1, (rows, dimension)) * (rng.random((rows, dimension)) < 0.7)
    return Polytope(matrix, rng.uniform(0.2, 1.5, rows), rng.uniform(0.3, 1, dimension))


def quadratic_program(polytope, point):
    start = np.zeros(polytope.dimension)
    return minimize(
        lambda x: 0.5 * ((x - point) ** 2).sum(), start, jac=lambda x: x - point, method="SLSQP",
        bounds=[(0, u) for u in polytope.upper],
        constraints={"type": "ineq", "fun": lambda x: polytope.limits - polytope.matrix @ x,
                     "jac": lambda x: -polytope.matrix},
        options={"ftol": 1e-15, "maxiter": 500},
    ).x  # fmt: skip


@pytest.mark.parametrize("rows", [1, 3])
def test_projection_matches_a_quadratic_program(rng, rows):
    for _ in range(100):
        polytope = random_polytope(rng, rows, int(rng.integers(1, 8)))
        point = rng.normal(0.5, 1.5, polytope.dimension)
        assert polytope.project(point) == pytest.approx(quadratic_program(polytope, point), abs=1e-7)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.1, 1.0, 100.0]))
def test_projection_is_feasible_idempotent_and_optimal(seed, rows, dimension, size):
    rng = np.random.default_rng(seed)
    polytope = random_polytope(rng, rows, dimension)
    point = rng.normal(0, size, dimension)
    found = polytope.project(point)
    assert (found >= 0).all()
    assert (polytope.matrix @ found <= polytope.limits * (1 + 1e-12)).all()
    assert polytope.project(found) == pytest.approx(found, abs=1e-10)
    # Variational inequality: <w - x, y - x> <= 0 for all y in K, its maximum a linear program.
    away = point - found
    assert away @ (polytope.maximise(away) - found) <= 1e-8 * max(1.0, size)


def test_both_ways_to_project_agree(rng):
    for _ in range(100):
        polytope = budget(rng.uniform(0.1, 2, 6), rng.uniform(0.2, 3), rng.uniform(0.2, 1, 6))
        point = rng.normal(1, 1, 6)
        if (polytope.matrix @ np.clip(point, 0, polytope.upper) > polytope.limits).any():
            assert polytope.project(point) == pytest.approx(polytope._least_distance(point), abs=1e-10)


def test_projection_onto_a_simplex_by_hand():
    assert budget(np.ones(3), 1.0).project(np.array([1.0, 0.8, -2.0])) == pytest.approx([0.6, 0.4, 0])
    assert budget(np.ones(2), 0.0).project(np.array([3.0, 1.0])).tolist() == [0, 0]
    assert partition(np.array([0, 0, 1]), np.array([1.0, 0.5])).project(np.ones(3)) == pytest.approx([0.5, 0.5, 0.5])


def test_linear_step_is_the_fractional_knapsack():
    polytope = budget(np.array([1.0, 2.0, 4.0]), 4.0)
    assert polytope.maximise(np.array([3.0, 4.0, 4.0])) == pytest.approx([1, 1, 0.25])
    assert polytope.maximise(-np.ones(3)).tolist() == [0, 0, 0]
    assert box(2).maximise(np.array([1e-12, -1.0])).tolist() == [1, 0]
    assert polytope.maximise(1e-12 * np.array([3.0, 4.0, 4.0])) == pytest.approx([1, 1, 0.25])


def test_diameter_bounds_every_distance_and_is_that_of_known_sets(rng):
    assert box(9).diameter == pytest.approx(3)
    assert budget(np.ones(12), 4.0).diameter == pytest.approx(np.sqrt(8))
    for _ in range(50):
        polytope = random_polytope(rng, 2, 4)
        corners = np.array([polytope.maximise(rng.normal(size=4)) for _ in range(20)])
        assert np.linalg.norm(corners[:, None] - corners[None], axis=2).max() <= polytope.diameter + 1e-9


def test_largest_ball_and_separation():
    centre, radius = box(3).ball
    assert centre == pytest.approx([0.5] * 3)
    assert radius == pytest.approx(0.5)
    polytope = budget(np.ones(2), 1.0)
    centre, radius = polytope.ball
    assert radius == pytest.approx(1 / (2 + np.sqrt(2)))
    assert polytope.separate(centre) is None
    assert polytope.separate(np.array([1.0, 1.0])) == pytest.approx(np.ones(2) / np.sqrt(2))
    assert polytope.separate(np.array([0.1, -1.0])).tolist() == [0, -1]


def test_points_of_the_inner_set_may_move_in_every_direction(rng):
    for _ in range(100):
        polytope = random_polytope(rng, 2, 3)
        margin = rng.uniform(0.1, 0.95) * polytope.largest_margin
        inner = polytope.inside(margin)
        corner = inner.maximise(rng.uniform(-0.2, 1, 3))
        direction = rng.normal(size=3)
        moved = margin + (1 - 2 * margin) * corner + margin * direction / np.linalg.norm(direction)
        assert polytope.contains(moved)
        rows = np.linalg.norm(polytope.matrix, axis=1)
        pushed = polytope.matrix @ (margin + (1 - 2 * margin) * corner) + margin * rows
        assert (pushed <= polytope.limits + 1e-9).all()
    with pytest.raises(InputError, match="No ball of radius"):
        polytope.inside(polytope.largest_margin * 1.01)


def test_contains():
    polytope = budget(np.array([1.0, 1.0]), 1.0)
    points = np.array([[0.5, 0.5], [0.6, 0.5], [-0.1, 0], [1.0, 0]])
    assert polytope.contains(points).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("matrix", "limits", "upper", "words"),
    [
        ([[1.0, -0.5]], [1.0], None, "A[0, 1] is -0.5; A x <= b is down-closed only"),
        ([[1.0, np.nan]], [1.0], None, "Entry [0, 1] of A is nan"),
        ([[1.0, 1.0]], [np.inf], None, "Entry [0] of b is inf"),
        ([[1.0, 1.0]], [-2.0], None, "b[0] is -2, so that no x >= 0 satisfies row 0"),
        ([[1.0, 1.0]], [1.0], [1.0, 2.0], "The cap of coordinate 1 is 2"),
        ([[1.0, 1.0]], [1.0], [0.0, 1.0], "The cap of coordinate 0 is 0"),
        ([[1.0, 1.0]], [1.0, 1.0], None, "A has shape (1, 2), b (2,)"),
    ],
)
def test_what_is_no_down_closed_polytope_is_refused(matrix, limits, upper, words):
    with pytest.raises(InputError) as caught:
        Polytope(matrix, limits, upper)
    assert words in str(caught.value)
