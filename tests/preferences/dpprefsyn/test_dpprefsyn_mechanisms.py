"""The three private computations: right values without noise, reach of one record, audits that can fail."""

import numpy as np
import pytest
import scipy.linalg
from scipy import stats
from scipy.special import expit

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.accounting import gaussian_multiplier
from workingpapers.foundations.privacy.auditing import audit
from workingpapers.foundations.privacy.noise import SecureNoise, SeededNoise
from workingpapers.preferences.dpprefsyn.budget import Plan, Settings
from workingpapers.preferences.dpprefsyn.mechanisms import (
    clip_rows,
    counts_and_sums,
    difference_rows,
    gradient_sums,
    nearest,
    poisson_sample,
    principal_directions,
    private_centres,
    private_rewards,
    project,
    second_moments,
    signed_axes,
)
from workingpapers.preferences.dpprefsyn.mixture import fit_plan


def unit_rows(rng, count, dimension):
    rows = rng.standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def quiet(**options):
    """Return a plan without noise."""
    chosen = Settings(**options)
    return Plan(1000, 1.0, 8, 0.0, 0.0, 0.0, 0.0, chosen)


def test_without_noise_the_directions_span_the_top_eigenspace():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 12)) * np.linspace(1, 3, 12) / 20  # all shorter than 1: no clipping
    directions = principal_directions(second_moments(rows, 0.0, SeededNoise(0)), 4)
    _, _, expected = np.linalg.svd(rows, full_matrices=False)
    assert scipy.linalg.subspace_angles(directions.T, expected[:4].T).max() < 1e-6
    np.testing.assert_allclose(directions @ directions.T, np.eye(4), atol=1e-12)
    variances = ((rows @ directions.T) ** 2).sum(axis=0)
    assert np.all(np.diff(variances) < 0)


def test_a_long_row_counts_as_one_of_length_one():
    row = 2 * np.eye(5)[:1]
    assert np.linalg.norm(second_moments(row, 0.0, SeededNoise(0))) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]])), [[0.6, 0.8], [0.3, 0.4]])


def test_moment_noise_keeps_the_frobenius_norm():
    drawn = np.array([second_moments(np.zeros((1, 3)), 2.0, SeededNoise(seed)) for seed in range(4000)])
    np.testing.assert_array_equal(drawn, drawn.transpose(0, 2, 1))
    spread = drawn.std(axis=0)
    np.testing.assert_allclose(np.diag(spread), 2.0, rtol=0.06)
    np.testing.assert_allclose(spread[np.triu_indices(3, 1)], 2.0 / np.sqrt(2), rtol=0.06)


class Recorder:
    """Takes down what is about to get noise, and adds none: shows how far one record reaches."""

    secure = False

    def __init__(self):
        self.seen = []

    def gaussian(self, values, scale):
        self.seen.append(np.array(values))
        return np.array(values)


def test_one_record_reaches_no_further_than_the_stated_sensitivities():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        check_reach(rng)


def check_reach(rng):
    rows = rng.standard_normal((6, 4)) * rng.exponential(1.0, (6, 1))
    with_all, without_last = Recorder(), Recorder()
    second_moments(rows, 1.0, with_all)
    second_moments(rows[:-1], 1.0, without_last)
    change = np.linalg.norm(with_all.seen[0] - without_last.seen[0])
    assert change == pytest.approx(min(1.0, np.linalg.norm(rows[-1])) ** 2, abs=1e-9)
    assert change <= 1 + 1e-9
    unit, _ = project(rows, None)
    labels, thetas = rng.integers(3, size=6), rng.standard_normal((3, 4)) * 5
    pair = [counts_and_sums(unit[:n], labels[:n], 3) for n in (6, 5)]
    assert np.linalg.norm(pair[0] - pair[1]) <= np.sqrt(2) + 1e-9
    pair = [gradient_sums(unit[:n], labels[:n], thetas) for n in (6, 5)]
    assert np.linalg.norm(pair[0] - pair[1]) <= 1 + 1e-9


def test_gradients_are_those_of_the_bradley_terry_loss():
    rng = np.random.default_rng(1)
    rows, labels, thetas = unit_rows(rng, 30, 3), rng.integers(2, size=30), rng.standard_normal((2, 3))

    def loss(flat):
        return np.logaddexp(0, -np.einsum("np,np->n", rows, flat.reshape(2, 3)[labels])).sum()

    from scipy.optimize import approx_fprime

    expected = approx_fprime(thetas.ravel(), loss, 1e-7).reshape(2, 3)
    np.testing.assert_allclose(gradient_sums(rows, labels, thetas), expected, atol=1e-5)


def test_one_full_cluster_without_noise_is_plain_logistic_regression_by_the_same_steps():
    rng = np.random.default_rng(2)
    rows = unit_rows(rng, 400, 5)
    rate, steps, learning_rate = 0.2, 9, 0.7
    got = private_rewards(rows, np.zeros(400, int), np.array([400.0]), rate, steps, learning_rate, 0.0, SeededNoise(11))
    sampler, theta, kept = SeededNoise(11), np.zeros(5), []
    for step in range(steps):
        batch = rows[poisson_sample(sampler, 400, rate)]
        gradient = np.zeros(5)
        for row in batch:
            gradient += -row * expit(-np.einsum("p,p->", row, theta))
        sampler.gaussian(gradient, 0.0)  # keeps both sources in step
        theta = theta - learning_rate * gradient / (rate * 400.0)
        if step >= steps // 2:
            kept.append(theta / (steps - steps // 2))
    expected = np.zeros(5)
    for part in kept:
        expected += part
    np.testing.assert_array_equal(got[0], expected)


def test_clusters_are_trained_as_if_each_were_alone():
    rng = np.random.default_rng(10)
    rows, labels = unit_rows(rng, 300, 4), (rng.random(300) < 0.3).astype(int)
    sizes = np.bincount(labels).astype(float)
    together = private_rewards(rows, labels, sizes, 1.0, 6, 0.8, 0.0, SeededNoise(0))
    for k in range(2):
        own = rows[labels == k]
        alone = private_rewards(own, np.zeros(len(own), int), sizes[k : k + 1], 1.0, 6, 0.8, 0.0, SeededNoise(0))
        np.testing.assert_allclose(together[k], alone[0], atol=1e-12)


def test_with_all_dimensions_and_one_cluster_the_pipeline_is_that_regression():
    rng = np.random.default_rng(3)
    rows = unit_rows(rng, 1000, 4) * 0.5
    found = fit_plan(rows, quiet(clusters=1, components=4, learning_rate=1.0), SeededNoise(0))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    theta, kept = np.zeros(4), []
    for step in range(8):
        theta = theta + 1.0 * (unit * expit(-unit @ theta)[:, None]).mean(axis=0)
        if step >= 4:
            kept.append(theta)
    np.testing.assert_allclose(found.thetas[0] @ found.directions, np.mean(kept, axis=0), atol=1e-12)


def test_swapping_chosen_and_rejected_flips_every_reward():
    rng = np.random.default_rng(4)
    rows = unit_rows(rng, 1000, 6) + 0.3 * np.eye(6)[0]
    plain = fit_plan(rows, quiet(clusters=1, components=6), SeededNoise(0))
    swapped = fit_plan(-rows, quiet(clusters=1, components=6), SeededNoise(0))
    np.testing.assert_allclose(swapped.thetas, -plain.thetas, atol=1e-12)
    # Axes come with both signs: for an even number of clusters the mixture as a whole turns round.
    truth = rng.choice(4, size=1000, p=(0.4, 0.25, 0.2, 0.15))
    rows = np.vstack([np.eye(6)[:2], -np.eye(6)[:2]])[truth] + 0.05 * rng.standard_normal((1000, 6))
    plain = fit_plan(rows, quiet(clusters=4, components=6), SeededNoise(0))
    swapped = fit_plan(-rows, quiet(clusters=4, components=6), SeededNoise(0))
    order = [1, 0, 3, 2]
    assert len(plain.thetas) == 4
    np.testing.assert_allclose(swapped.thetas[order], -plain.thetas, atol=1e-12)
    np.testing.assert_allclose(swapped.weights[order], plain.weights)


def test_clusters_without_noise_are_spherical_k_means():
    rng = np.random.default_rng(5)
    tastes = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])
    truth = rng.choice(3, size=900, p=(0.5, 0.3, 0.2))
    rows = tastes[truth] + 0.2 * rng.standard_normal((900, 3))
    rows, _ = project(rows, None)
    centres, sizes = private_centres(rows, signed_axes(3, 3), 10, (0.0, 0.0), SeededNoise(0))
    np.testing.assert_array_equal(sizes, np.bincount(truth))
    expected = np.stack([rows[truth == k].sum(axis=0) for k in range(3)])
    np.testing.assert_allclose(centres, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(nearest(rows, centres), truth)


def test_each_round_starts_from_the_centres_of_the_last():
    rows = unit_rows(np.random.default_rng(12), 500, 4)
    expected = signed_axes(5, 4)
    for _ in range(4):
        distances = np.linalg.norm(rows[:, None] - expected[None], axis=2)
        sums = np.stack([rows[distances.argmin(axis=1) == k].sum(axis=0) for k in range(5)])
        expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    centres, sizes = private_centres(rows, signed_axes(5, 4), 4, (0.0, 0.0), SeededNoise(0))
    np.testing.assert_allclose(centres, expected, atol=1e-12)
    np.testing.assert_array_equal(sizes, np.bincount(nearest(rows, expected), minlength=5))


def test_an_empty_cluster_stays_where_it_was():
    rows = np.tile([1.0, 0.0], (50, 1))
    centres, sizes = private_centres(rows, signed_axes(4, 2), 2, (0.0, 0.0), SeededNoise(0))
    np.testing.assert_array_equal(centres, signed_axes(4, 2))
    np.testing.assert_array_equal(sizes, [50, 0, 0, 0])


def test_a_cluster_below_the_floor_has_no_reward_and_weights_sum_to_one():
    rng = np.random.default_rng(6)
    shares = rng.choice(3, size=1000, p=(0.6, 0.37, 0.03))
    rows = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])[shares] + 0.05 * rng.standard_normal((1000, 3))
    found = fit_plan(rows * 0.5, quiet(clusters=3, components=3, rounds=5), SeededNoise(0))
    assert len(found.thetas) == len(found.centres) == 2
    counts = np.bincount(shares)[:2]
    np.testing.assert_allclose(np.sort(found.weights)[::-1], counts / counts.sum(), atol=0.01)


def test_a_tiny_difference_is_dropped_and_others_have_length_one():
    inner, long = project(np.array([[3.0, 4.0, 0], [0, 0, 1.0], [1e-12, 0, 0]]), np.eye(3)[:2])
    np.testing.assert_array_equal(long, [True, False, False])
    np.testing.assert_allclose(inner, [[0.6, 0.8]])


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0)], ids=["secure", "seeded"])
def test_poisson_samples_have_their_law(source):
    records, rate, times = 50, 0.13, 3000
    hits = np.zeros((times, records), int)
    for row in hits:
        row[poisson_sample(source, records, rate)] = 1
    tails = stats.binom.cdf(hits.sum(axis=0), times, rate)
    assert stats.kstest(tails, "uniform").pvalue > 1e-6  # each record enters at the rate, first and last too
    sizes = hits.sum(axis=1)
    assert sizes.var() == pytest.approx(records * rate * (1 - rate), rel=0.15)
    together = (hits[:, :-1] & hits[:, 1:]).mean()
    assert together == pytest.approx(rate**2, rel=0.1)
    np.testing.assert_array_equal(poisson_sample(source, 7, 1.0), np.arange(7))


def test_embeddings_are_looked_at():
    good = np.eye(3)
    with pytest.raises(InputError, match=r"shapes \(3, 3\) and \(2, 3\)"):
        difference_rows(good, good[:2])
    with pytest.raises(InputError, match="Row 1 of the rejected embeddings has length 2"):
        difference_rows(good, np.diag([1.0, 2.0, 1.0]))
    with pytest.raises(InputError, match="Row 2 of the chosen embeddings has length nan"):
        difference_rows(np.diag([1.0, 1.0, np.nan]), good)
    with pytest.raises(InputError, match="9 clusters in 4 dimensions"):
        signed_axes(9, 4)


RUNS = 2000


def moments_statistic(rows, scale, seed):
    return second_moments(rows, scale, SeededNoise(seed))[0, 0]


def audited(statistic, rows, odd, scale, runs=RUNS):
    both = np.vstack([rows, odd])
    without = [statistic(rows, scale, [0, run]) for run in range(runs)]
    present = [statistic(both, scale, [1, run]) for run in range(runs)]
    return audit(without, present, delta=1e-5).epsilon


def test_audit_of_the_second_moments():
    rng = np.random.default_rng(7)
    rows = np.hstack([np.zeros((200, 1)), unit_rows(rng, 200, 3)])
    odd = np.eye(4)[:1]
    scale = gaussian_multiplier(1.0, 1e-5)
    assert audited(moments_statistic, rows, odd, scale) <= 1.0
    assert audited(moments_statistic, rows, odd, scale / 5) > 1.0
    # A record that is not clipped counts four times as much where its difference has length 2.
    assert audited(moments_statistic, rows, 2 * odd, scale) <= 1.0


def rounds_statistic(rows, scale, seed):
    noise = SeededNoise(seed)
    released = noise.gaussian(counts_and_sums(rows, nearest(rows, signed_axes(2, 4)), 2), scale)
    return released[0, 0] + released[0, 1]  # the odd record adds 1 to both: the likelihood ratio


def test_audit_of_the_cluster_counts_and_sums():
    rng = np.random.default_rng(8)
    rows = np.hstack([np.zeros((200, 1)), unit_rows(rng, 200, 3)])
    scale = np.sqrt(2) * gaussian_multiplier(1.0, 1e-5)
    assert audited(rounds_statistic, rows, np.eye(4)[:1], scale) <= 1.0
    assert audited(rounds_statistic, rows, np.eye(4)[:1], scale / 5) > 1.0


def rewards_statistic(rows, scale, seed):
    released = []

    class Watched(SeededNoise):
        def gaussian(self, values, scale):
            released.append(super().gaussian(values, scale))
            return released[-1]

    private_rewards(rows, np.zeros(len(rows), int), np.array([200.0]), 1.0, 10, 20.0, scale, Watched(seed))
    return sum(step[0, 0] for step in released)


def test_audit_of_the_gradients():
    # All others want the opposite, so that the gradient of the odd record is as long as one can be.
    rows = np.tile(-np.eye(3)[:1], (200, 1))
    scale = np.sqrt(10) * gaussian_multiplier(1.0, 1e-5)
    assert audited(rewards_statistic, rows, np.eye(3)[:1], scale, 1000) <= 1.0
    assert audited(rewards_statistic, rows, np.eye(3)[:1], scale / 5, 1000) > 1.0
