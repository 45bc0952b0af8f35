"""The judge on arms with known effects: its error rate at no effect, its power, and exact intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from workingpapers.replication.claim import Claim, Size
from workingpapers.replication.judge import judge, proportion_interval, t_interval

ARMS = {
    "method": lambda seed, progress: {},
    "baseline": lambda seed, progress: {},
    "control": lambda seed, progress: {},
}


def make(**changes):
    values = {
        "name": "headline",
        "statement": "The method has a lower loss.",
        "metric": "loss",
        "direction": "lower",
        "arms": ARMS,
        "method": "method",
        "against": "baseline",
        "sizes": {"smallest": Size(5)},
    }
    return Claim(**{**values, **changes})


def rows(values):
    return [{"loss": float(value)} for value in values]


def test_interval_is_student_t():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    mean, low, high = t_interval(values)
    expected = stats.t.interval(0.95, 3, loc=3.5, scale=stats.sem(values))
    assert mean == 3.5
    assert (low, high) == pytest.approx(expected, rel=1e-12)


def test_known_difference():
    outcome = judge(make(), {"method": rows([1, 2, 3, 4]), "baseline": rows([3, 4.5, 5, 6.5])})
    item = outcome.comparisons[0]
    differences = np.array([2, 2.5, 2, 2.5])
    assert item.improvement == pytest.approx(2.25)
    assert item.low == pytest.approx(2.25 - stats.t.ppf(0.975, 3) * differences.std(ddof=1) / 2)
    assert outcome.verdict == "supported"


def test_direction_turns_the_sign():
    values = {"method": rows([1, 2, 3.5, 4]), "baseline": rows([3, 4.5, 5, 6.5])}
    assert judge(make(), values).verdict == "supported"
    assert judge(make(direction="higher"), values).verdict == "not supported"


def test_ratio_is_the_geometric_mean_of_paired_ratios():
    claim = make(effect="ratio")
    item = judge(claim, {"method": rows([1, 8]), "baseline": rows([2, 4])}).comparisons[0]
    assert item.improvement == pytest.approx(0.0, abs=1e-15)  # sqrt(1/2 * 2) = 1
    item = judge(claim, {"method": rows([1, 1.1, 0.9]), "baseline": rows([2, 2.2, 1.8])}).comparisons[0]
    assert (item.improvement, item.low, item.high) == pytest.approx((0.5, 0.5, 0.5))


def test_ratio_does_not_depend_on_the_unit_of_a_seed():
    claim = make(effect="ratio")
    method, baseline, scale = np.array([1, 2, 3.0]), np.array([1.4, 2.1, 3.9]), np.array([1, 1000, 1e-3])
    one = judge(claim, {"method": rows(method), "baseline": rows(baseline)}).comparisons[0]
    other = judge(claim, {"method": rows(method * scale), "baseline": rows(baseline * scale)}).comparisons[0]
    assert (one.improvement, one.low, one.high) == pytest.approx((other.improvement, other.low, other.high))


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (3, 40), (20, 20), (7, 9)])
def test_proportion_interval_is_clopper_pearson(successes, trials):
    share, low, high = proportion_interval(successes, trials)
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert share == successes / trials
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-10)


def test_proportion_pools_the_trials_of_all_seeds():
    claim = make(effect="proportion", against=0.1, counts="trials")
    outcome = judge(claim, {"method": [{"loss": 0.0, "trials": 30}, {"loss": 0.1, "trials": 10}]})
    _, low, high = proportion_interval(1, 40)
    item = outcome.comparisons[0]
    assert (item.improvement, item.low, item.high) == pytest.approx((0.1 - 1 / 40, 0.1 - high, 0.1 - low))
    assert outcome.verdict == "inconclusive"


def test_five_clean_trials_do_not_show_a_rate_below_a_tenth():
    claim = make(effect="proportion", against=0.1)
    assert judge(claim, {"method": rows([0] * 5)}).verdict == "inconclusive"
    assert judge(claim, {"method": rows([0] * 40)}).verdict == "supported"


def test_margin_states_the_smallest_effect_of_interest():
    values = {"method": rows([1, 2, 3]), "baseline": rows([1.1, 2.101, 3.102])}
    assert judge(make(margin=0.05), values).verdict == "supported"
    assert judge(make(margin=0.2), values).verdict == "not supported"
    assert judge(make(margin=0.101), values).verdict == "inconclusive"


def test_negative_margin_states_non_inferiority():
    values = {"method": rows([1.0, 2.0, 3.0]), "baseline": rows([0.99, 1.99, 2.99])}
    assert judge(make(), values).verdict == "not supported"
    assert judge(make(margin=-0.05), values).verdict == "supported"


def test_the_method_must_beat_every_baseline():
    claim = make(against=("baseline", "control"))
    method = [1.0, 2.0, 3.0]
    better, equal = rows([2.0, 3.1, 4.0]), rows([1.1, 1.9, 3.0])
    assert judge(claim, {"method": rows(method), "baseline": better, "control": better}).verdict == "supported"
    outcome = judge(claim, {"method": rows(method), "baseline": better, "control": equal})
    assert outcome.verdict == "inconclusive"
    assert "control" in outcome.reason


def test_fixed_number_as_baseline():
    values = {"method": rows([1e-12, 2e-13, 5e-12])}
    assert judge(make(against=1e-9), values).verdict == "supported"
    assert judge(make(against=1e-13), values).verdict != "supported"


@pytest.mark.parametrize(
    ("effect", "method", "words"),
    [
        ("difference", [1.0], "at least two"),
        ("difference", [1.0, math.nan], "not finite"),
        ("ratio", [1.0, 0.0], "not positive"),
    ],
)
def test_what_cannot_be_judged_is_inconclusive(effect, method, words):
    outcome = judge(make(effect=effect), {"method": rows(method), "baseline": rows([2.0, 3.0][: len(method)])})
    assert outcome.verdict == "inconclusive"
    assert words in outcome.reason


def test_missing_metric_is_named():
    with pytest.raises(KeyError, match="no metric 'loss'"):
        judge(make(), {"method": [{"other": 1.0}] * 2, "baseline": rows([1, 2])})


def support_rate(effect, seeds, gain, simulations, rng):
    """Share of simulated claims that come out supported; seeds share a common effect, noise is log-normal."""
    claim = make(effect=effect)
    common = rng.normal(0, 0.5, (simulations, seeds))
    method = common + rng.normal(0, 0.4, (simulations, seeds)) - gain
    baseline = common + rng.normal(0, 0.4, (simulations, seeds))
    if effect == "ratio":
        method, baseline = np.exp(method), np.exp(baseline)
    verdicts = [
        judge(claim, {"method": rows(m), "baseline": rows(b)}).verdict for m, b in zip(method, baseline, strict=True)
    ]
    return verdicts.count("supported") / simulations


@pytest.mark.parametrize("effect", ["difference", "ratio"])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_false_support_rate_under_no_effect_is_nominal(effect, seeds):
    simulations = 2000
    rate = support_rate(effect, seeds, 0.0, simulations, np.random.default_rng(seeds))
    # The interval is two-sided at 95 %, so support by chance has probability 2.5 %; a judge at that rate exceeds this
    # bound once in 10,000 runs.
    assert rate <= stats.binom.ppf(0.9999, simulations, 0.025) / simulations


def test_a_percentile_bootstrap_would_support_too_often():
    """Why the judge does not bootstrap: at three seeds it would be wrong several times as often as it says."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(500):
        differences = rng.normal(size=3)
        means = differences[rng.integers(0, 3, (400, 3))].mean(axis=1)
        false += np.quantile(means, 0.025) > 0
    assert false / 500 > 0.06


def test_power_grows_with_seeds():
    rng = np.random.default_rng(4)
    rates = [support_rate("difference", seeds, 0.4, 400, rng) for seeds in (4, 8, 16, 32)]
    assert rates == sorted(rates)
    assert rates[0] < 0.4
    assert rates[-1] > 0.9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Two words"}, "use lower case letters"),
        ({"method": "other"}, "is not among the arms"),
        ({"against": "method"}, "not a baseline"),
        ({"direction": "up"}, "use 'lower'"),
        ({"effect": "proportion"}, "fixed number"),
        ({"effect": "ratio", "against": 1.0}, "name a baseline"),
        ({"sizes": {"small": Size(3)}}, "'smallest' is needed"),
    ],
)
def test_malformed_claims_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        make(**changes)


def test_size_falls_back_to_the_next_smaller_one():
    claim = make(sizes={"smallest": Size(2), "small": Size(3)})
    assert [claim.size(name).seeds for name in ("smallest", "small", "full")] == [2, 3, 3]
