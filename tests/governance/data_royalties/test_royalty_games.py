"""Shapley axioms, known games, KNN-Shapley against brute force, splitting and copying."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from workingpapers.governance.data_royalties.duplicates import hand_out, near_copies, representatives, text_vectors
from workingpapers.governance.data_royalties.games import (
    CoalitionAttributor,
    leave_one_out,
    necessary,
    shapley,
    shapley_permutations,
    tabulate,
)
from workingpapers.governance.data_royalties.neighbours import NeighbourAttributor, knn_shapley
from workingpapers.governance.data_royalties.scores import Outputs, sum_by_work


def by_all_orders(values: np.ndarray, players: int) -> np.ndarray:
    """The definition: mean gain over all orders."""
    found = np.zeros(players)
    for order in permutations(range(players)):
        mask = 0
        for player in order:
            found[player] += values[mask | 1 << player] - values[mask]
            mask |= 1 << player
    return found / math.factorial(players)


@pytest.mark.parametrize("seed", range(5))
def test_shapley_axioms_on_random_games(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=32)
    value = shapley(values)
    np.testing.assert_allclose(value, by_all_orders(values, 5), atol=1e-12)
    assert value.sum() == pytest.approx(values[31] - values[0], abs=1e-12)

    other = rng.normal(size=32)
    np.testing.assert_allclose(shapley(values + 2 * other), value + 2 * shapley(other), atol=1e-12)

    masks = np.arange(32)
    null = values[masks & 0b11101]  # player 1 changes nothing
    assert shapley(null)[1] == pytest.approx(0.0, abs=1e-12)

    swapped = (masks & 0b11100) | (masks & 1) << 1 | (masks >> 1 & 1)
    symmetric = values + values[swapped]  # players 0 and 1 are interchangeable
    assert shapley(symmetric)[0] == pytest.approx(shapley(symmetric)[1], abs=1e-12)


def test_glove_game():
    values = tabulate(lambda mask: min(mask & 1, (mask >> 1).bit_count()), 3)
    np.testing.assert_allclose(shapley(values), [2 / 3, 1 / 6, 1 / 6], atol=1e-12)


def test_necessary_developer_of_an_additive_game_gets_half():
    worth = np.array([3.0, 1.0, 2.0, 0.5])
    value = shapley(tabulate(necessary(lambda mask: sum(worth[i] for i in range(4) if mask >> i & 1)), 5))
    assert value[0] == pytest.approx(worth.sum() / 2, abs=1e-12)
    np.testing.assert_allclose(value[1:], worth / 2, atol=1e-12)


def test_permutations_are_efficient_and_close_to_exact():
    values = np.random.default_rng(7).normal(size=64)
    estimate = shapley_permutations(lambda mask: values[mask], 6, np.random.default_rng(1), permutations=2000)
    assert estimate.permutations == 2000
    assert estimate.values.sum() == pytest.approx(values[63] - values[0], abs=1e-10)
    assert np.all(np.abs(estimate.values - shapley(values)) < 4 * estimate.stderr)


def test_antithetic_pairs_are_exact_for_pairwise_games():
    # A gain that depends on the players before it linearly averages out over an order and its reverse.
    rng = np.random.default_rng(3)
    coupling = rng.normal(size=(6, 6))

    def game(mask: int) -> float:
        chosen = [i for i in range(6) if mask >> i & 1]
        return float(coupling[np.ix_(chosen, chosen)].sum())

    estimate = shapley_permutations(game, 6, np.random.default_rng(0), permutations=2)
    np.testing.assert_allclose(estimate.values, shapley(tabulate(game, 6)), atol=1e-12)


def test_tolerance_stops_early_and_not_too_early():
    values = np.random.default_rng(2).normal(size=32)
    estimate = shapley_permutations(
        lambda mask: values[mask], 5, np.random.default_rng(0), permutations=4000, tolerance=0.1
    )
    assert estimate.permutations < 4000
    assert np.all(estimate.stderr < 0.1)


def test_leave_one_out_pays_nothing_for_either_of_two_copies():
    def game(mask: int) -> float:
        return 1.0 if mask & 0b011 else 0.0

    np.testing.assert_allclose(leave_one_out(game, 3), [0.0, 0.0, 0.0])
    np.testing.assert_allclose(shapley(tabulate(game, 3)), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("neighbours", [1, 2, 3, 9])
def test_knn_shapley_equals_brute_force(neighbours):
    rng = np.random.default_rng(neighbours)
    features, labels = rng.normal(size=(7, 2)), rng.integers(0, 2, 7)
    outputs, answers = rng.normal(size=(12, 2)), rng.integers(0, 2, 12)
    found = knn_shapley(features, labels, outputs, answers, neighbours)
    for row in range(12):
        order = np.argsort(((features - outputs[row]) ** 2).sum(axis=1))

        def utility(mask: int, order=order, row=row) -> float:
            nearest = [point for point in order if mask >> point & 1][:neighbours]
            return sum(labels[point] == answers[row] for point in nearest) / neighbours

        values = tabulate(utility, 7)
        np.testing.assert_allclose(found[row], shapley(values), atol=1e-12)
        assert found[row].sum() == pytest.approx(values[-1], abs=1e-12)


def test_splitting_a_provider_leaves_the_sum_of_an_additive_method():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    outputs = Outputs(["e1", "e2"], rng.normal(size=(2, 3)), np.array([0, 2]))
    owners = [f"w{i % 4}" for i in range(40)]
    split = [f"{owner}-{'a' if i < 20 else 'b'}" if owner == "w0" else owner for i, owner in enumerate(owners)]
    whole = NeighbourAttributor(features, labels, owners).attribute(outputs)
    parts = NeighbourAttributor(features, labels, split).attribute(outputs)
    assert list(parts.works) == ["w0-a", "w0-b", "w1", "w2", "w3"]
    np.testing.assert_allclose(parts.values[:, :2].sum(axis=1), whole.values[:, 0], atol=1e-12)
    np.testing.assert_allclose(parts.values[:, 2:], whole.values[:, 1:], atol=1e-12)


def test_splitting_a_player_changes_provider_level_shapley():
    # v = 1 once any of A's halves or B is in: A alone 1/2, its two halves together 2/3.
    def single(mask: int) -> float:
        return float(mask > 0)

    assert shapley(tabulate(single, 2))[0] == pytest.approx(1 / 2)
    assert shapley(tabulate(single, 3))[:2].sum() == pytest.approx(2 / 3)


def test_coalition_attributor_takes_one_game_for_each_output():
    worth = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])

    def utility(mask: int, outputs: Outputs) -> np.ndarray:
        return worth[:, [i for i in range(3) if mask >> i & 1]].sum(axis=1)

    outputs = Outputs(["a", "b"], np.zeros((2, 1)), np.zeros(2))
    for kind in ("shapley", "leave_one_out"):
        scores = CoalitionAttributor(("x", "y", "z"), utility, kind).attribute(outputs)
        np.testing.assert_allclose(scores.values, worth, atol=1e-12)
    np.testing.assert_allclose(scores.shares(), [[1 / 7, 2 / 7, 4 / 7], [0, 0, 1]])


def test_sum_by_work():
    works, sums = sum_by_work(np.array([[1.0, 2.0, 4.0]]), ["b", "a", "b"])
    assert works == ["a", "b"]
    np.testing.assert_array_equal(sums, [[2.0, 5.0]])


def test_near_copies_finds_groups_in_order_of_appearance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 50))
    data = np.vstack([rows[2], rows[0], rows[2] * 3, rows[1], rows[0] + 1e-4, rows[3]])
    groups = near_copies(data, threshold=0.9999)
    assert groups.tolist() == [0, 1, 0, 2, 1, 3]
    assert representatives(groups).tolist() == [0, 1, 3, 5]
    assert len(set(near_copies(rows, threshold=0.9999).tolist())) == 4


def test_near_copies_of_texts():
    original = "The quick brown fox jumps over the lazy dog and runs into the deep dark forest at night."
    texts = [original, original.replace("quick", "quick,"), "Royalties are paid to those whose work was used."]
    assert near_copies(text_vectors(texts), threshold=0.9).tolist() == [0, 0, 1]


def test_hand_out_pays_a_group_once():
    groups, owners = [0, 1, 0, 0], ["original", "other", "copier", "copier2"]
    scores = {0: 6.0, 1: 1.0}
    first = hand_out(scores, groups, owners, "first")
    assert first == {"original": 6.0, "other": 1.0, "copier": 0.0, "copier2": 0.0}
    equal = hand_out(scores, groups, owners, "equal")
    assert equal == {"original": 2.0, "other": 1.0, "copier": 2.0, "copier2": 2.0}
    # A second copy under the same name gains nothing under either rule.
    assert hand_out(scores, [0, 1, 0, 0], ["original", "other", "copier", "copier"], "equal")["copier"] == 3.0
