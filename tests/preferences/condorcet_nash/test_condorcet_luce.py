"""Probabilities under Luce's model: enumeration, known tables, limits, quadrature and simulation against each other."""

import itertools
import math

import numpy as np
import pytest

from workingpapers.foundations.bradley_terry import fit_rankings
from workingpapers.foundations.errors import InputError
from workingpapers.preferences.condorcet_nash import (
    diagnose,
    exact_probabilities,
    sample_rankings,
    simulate,
    winner_probability,
)
from workingpapers.preferences.condorcet_nash.luce import majority_shares, winner_share


def test_twelve_of_216_profiles_of_three_labelers_are_cyclic():
    orders = list(itertools.permutations(range(3)))
    cyclic = sum(
        diagnose(majority_shares(np.argsort(np.array(profile), axis=1))).has_cycle
        for profile in itertools.product(orders, repeat=3)
    )
    assert cyclic == 12
    assert exact_probabilities(np.ones(3), 3).cycle == pytest.approx(12 / 216, abs=1e-14)


@pytest.mark.parametrize(("labelers", "known"), [(3, 0.05556), (5, 0.06944), (7, 0.07502), (9, 0.07798), (11, 0.07981)])
def test_paradox_of_three_responses_matches_the_published_table(labelers, known):
    found = exact_probabilities(np.ones(3), labelers)
    assert found.cycle == pytest.approx(known, abs=6e-6)
    assert found.winner == pytest.approx(1 - found.cycle, abs=1e-12)


def test_many_labelers_approach_guilbauds_number():
    limit = 0.25 - 3 / (2 * math.pi) * math.asin(1 / 3)
    gaps = [limit - exact_probabilities(np.ones(3), labelers).cycle for labelers in (9, 17, 33)]
    # The gap falls like 1 / labelers.
    assert gaps[0] / gaps[1] == pytest.approx(17 / 9, rel=0.03)
    assert gaps[1] / gaps[2] == pytest.approx(33 / 17, rel=0.03)
    assert 0 < gaps[2] < 0.003


def test_exact_probabilities_with_weights_equal_a_sum_over_all_profiles():
    weights = np.array([1.0, 2.5, 0.4])
    orders = list(itertools.permutations(range(3)))

    def chance(order):
        rest, product = weights.sum(), 1.0
        for k in order:
            product *= weights[k] / rest
            rest -= weights[k]
        return product

    cycle = sum(
        math.prod(chance(order) for order in profile)
        for profile in itertools.product(orders, repeat=3)
        if diagnose(majority_shares(np.argsort(np.array(profile), axis=1))).has_cycle
    )
    assert exact_probabilities(weights, 3).cycle == pytest.approx(cycle, rel=1e-12)


@pytest.mark.parametrize("weights", [np.ones(4), np.array([1.0, 2.0, 3.5, 0.2]), np.array([0.3, 1.0, 1.0, 4.0])])
def test_quadrature_of_the_winner_equals_enumeration(weights):
    assert winner_probability(weights, 3).sum() == pytest.approx(exact_probabilities(weights, 3).winner, abs=1e-9)


def test_quadrature_is_exact_with_half_as_many_nodes_as_responses():
    assert winner_probability(np.ones(5), 3, nodes=3).sum() == pytest.approx(
        exact_probabilities(np.ones(5), 3).winner, abs=1e-13
    )
    assert winner_probability(np.ones(4), 5, nodes=2).sum() == pytest.approx(
        exact_probabilities(np.ones(4), 5).winner, abs=1e-13
    )


def test_simulation_agrees_with_the_exact_values():
    weights = np.array([1.0, 2.0, 3.5, 0.2, 1.3])
    exact = exact_probabilities(weights, 3)
    found = simulate(weights, 3, 20_000, np.random.default_rng(0))
    assert abs(found.cycle - exact.cycle) < 4 * found.cycle_error
    assert abs(found.winner - exact.winner) < 4 * found.winner_error
    assert found.cycle_error == pytest.approx(math.sqrt(exact.cycle * (1 - exact.cycle) / 20_000), rel=0.1)


def test_knock_out_finds_the_winners_that_the_whole_matrix_has():
    weights = np.array([1.0, 2.0, 3.5, 0.2, 1.3, 0.9, 1.1])
    whole = simulate(weights, 5, 3000, np.random.default_rng(3)).winner
    assert winner_share(weights, 5, 3000, np.random.default_rng(3)) == whole
    exact = winner_probability(np.ones(20), 3, nodes=10).sum()
    share = winner_share(np.ones(20), 3, 20_000, np.random.default_rng(4))
    assert abs(share - exact) < 4 * math.sqrt(exact * (1 - exact) / 20_000)


def test_winner_falls_with_the_constant_of_three_labelers():
    # P(winner) sqrt(n) tends to pi^(3/2) / 2, from below, with a correction of order log(n) / sqrt(n).
    limit = math.pi**1.5 / 2
    scaled = [n * one_of_equal_responses_wins(n) * math.sqrt(n) for n in (50, 200)]
    assert scaled[0] < scaled[1] < limit
    assert scaled[1] == pytest.approx(limit, rel=0.06)
    share = winner_share(np.ones(800), 3, 6000, np.random.default_rng(5))
    error = math.sqrt(share * (1 - share) / 6000)
    assert abs(share * math.sqrt(800) - limit) < 0.03 * limit + 3 * error * math.sqrt(800)


def one_of_equal_responses_wins(n):
    nodes, areas = np.polynomial.legendre.leggauss(n // 2 + 1)
    u, area = (nodes + 1) / 2, areas / 2
    a, b, c = np.meshgrid(u, u, u, indexing="ij")
    value = (1 - (a * b + b * c + a * c - 2 * a * b * c)) ** (n - 1)
    return float(np.einsum("ijk,i,j,k->", value, area, area, area))


def test_no_cycle_stays_below_the_bound_of_disjoint_triples_and_falls_ever_faster():
    rng = np.random.default_rng(6)
    logs = []
    for n in range(3, 13):
        found = simulate(np.ones(n), 3, 4000, rng)
        acyclic = 1 - found.cycle
        assert acyclic <= (17 / 18) ** (n // 3) + 3 * found.cycle_error
        logs.append(-math.log(acyclic))
    assert logs == sorted(logs)
    steps = np.diff(logs)
    assert steps[-3:].mean() > steps[:3].mean()


def test_restrictions_to_disjoint_triples_are_independent():
    weights = np.array([1.0, 2.0, 0.5, 1.5, 0.7, 3.0])
    rankings = sample_rankings(weights, 1, 40_000, np.random.default_rng(7))[:, 0]
    ranks = np.argsort(rankings, axis=1)
    left, right = ranks[:, 0] < ranks[:, 1], ranks[:, 3] < ranks[:, 4]
    assert left.mean() == pytest.approx(1 / 3, abs=0.01)
    assert right.mean() == pytest.approx(1.5 / 2.2, abs=0.01)
    assert np.mean(left & right) == pytest.approx(left.mean() * right.mean(), abs=0.01)


def test_plackett_luce_fit_returns_the_weights_of_sampled_rankings():
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    rankings = sample_rankings(weights, 1, 4000, np.random.default_rng(8))[:, 0]
    fit = fit_rankings(rankings.tolist(), 4)
    truth = np.log(weights) - np.log(weights).mean()
    assert (np.abs(fit.strengths - truth) < 4 * fit.standard_errors()).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: exact_probabilities(np.ones(3), 4), "labelers is 4"),
        (lambda: exact_probabilities(np.ones(9), 3), "too many to enumerate"),
        (lambda: exact_probabilities(np.array([1.0, -1.0]), 3), "positive numbers"),
        (lambda: winner_probability(np.ones(3), 9), "use fewer nodes"),
        (lambda: simulate(np.ones(3), 3, 1, np.random.default_rng(0)), "draws is 1"),
        (lambda: sample_rankings(np.ones(3), 0, 1, np.random.default_rng(0)), "labelers is 0"),
    ],
)
def test_settings_out_of_range_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
