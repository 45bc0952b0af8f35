"""Privacy: noise against its law, accounting against closed forms, audits that can fail."""

import math

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy import (
    SecureNoise,
    SeededNoise,
    audit,
    compose,
    compose_rdp,
    gaussian_multiplier,
    gaussian_stage,
    noise_source,
    pure_stage,
    sampled_gaussian_stage,
)
from workingpapers.foundations.privacy.accounting import least_scale
from workingpapers.foundations.privacy.noise import lattice_exponent, lattice_slack
from workingpapers.foundations.privacy.statement import state


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(3)], ids=["secure", "seeded"])
def test_noise_has_its_law(source):
    normal = source.gaussian(np.full((40, 50), 5.0), 2.0)
    assert normal.shape == (40, 50)
    assert stats.kstest((normal.ravel() - 5) / 2, "norm").pvalue > 1e-6
    laplace = source.laplace(np.zeros(2000), 1.5)
    assert stats.kstest(laplace / 1.5, "laplace").pvalue > 1e-6
    uniform = source.uniform(5000)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-6
    assert 0 < uniform.min() <= uniform.max() < 1
    np.testing.assert_array_equal(source.gaussian([1.0, 2.0], 0.0), [1.0, 2.0])


def test_secure_noise_lies_on_its_lattice_and_opendp_confirms_the_slack():
    import opendp.prelude as dp

    step = 2.0 ** lattice_exponent(3.0)
    drawn = SecureNoise().gaussian(np.full(200, 0.1), 3.0) / step
    np.testing.assert_array_equal(drawn, np.round(drawn))
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=400)
    for maker, metric, norm in (("make_gaussian", dp.l2_distance, 2), ("make_laplace", dp.l1_distance, 1)):
        mechanism = getattr(dp.m, maker)(domain, metric(T=float), scale=3.0, k=lattice_exponent(3.0))
        full = 1.0 + lattice_slack(400, 3.0, norm)
        expected = full**2 / (2 * 9) if norm == 2 else full / 3
        assert mechanism.map(1.0) == pytest.approx(expected, rel=1e-9)


def test_a_seed_is_refused_unless_the_caller_says_so():
    assert noise_source().secure
    with pytest.raises(InputError, match="seed 7 anybody"):
        noise_source(7)
    first, second = noise_source(7, insecure=True), noise_source(7, insecure=True)
    assert not first.secure
    np.testing.assert_array_equal(first.gaussian(np.zeros(5), 1.0), second.gaussian(np.zeros(5), 1.0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-4)])
def test_one_gaussian_costs_what_the_closed_form_says(epsilon, delta):
    multiplier = gaussian_multiplier(epsilon, delta)
    stage = gaussian_stage("sum", 2.0, 2.0 * multiplier, secure=False)
    assert compose([stage], delta) == pytest.approx(epsilon, rel=2e-3)
    assert compose([stage], delta) >= epsilon * (1 - 1e-6)
    # The textbook scale is larger where it is valid, up to epsilon 1, and too small beyond.
    assert (multiplier < math.sqrt(2 * math.log(1.25 / delta)) / epsilon) == (epsilon <= 1)


def test_several_gaussians_are_one_with_less_noise():
    stages = [gaussian_stage("a", 1.0, 5.0, steps=3, secure=False), gaussian_stage("b", 1.0, 4.0, secure=False)]
    together = 1 / math.sqrt(3 / 25 + 1 / 16)
    one = gaussian_stage("c", 1.0, together, secure=False)
    assert compose(stages, 1e-6) == pytest.approx(compose([one], 1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("records", "multiplier", "expected"),
    [(14167, 0.808, 0.729), (14167, 0.566, 2.934), (92858, 0.501, 2.930)],
)
def test_sampled_gaussians_cost_what_the_published_settings_say(records, multiplier, expected):
    rate = 4 / (records // 9)
    stage = sampled_gaussian_stage("DP-SGD", 1.0, multiplier, rate=rate, steps=int(4 / rate), secure=False)
    epsilon = compose([stage], 1 / records)
    assert epsilon == pytest.approx(expected, abs=0.02)
    assert compose_rdp([stage], 1 / records) >= epsilon


def test_cost_falls_with_noise_and_grows_with_steps():
    def cost(scale, steps):
        stage = sampled_gaussian_stage("x", 1.0, scale, rate=0.05, steps=steps, secure=False)
        return compose([stage], 1e-5)

    assert cost(1.0, 100) > cost(1.2, 100) > 0
    assert cost(1.0, 200) > cost(1.0, 100)


def test_pure_stages_add_and_mix_with_gaussian_ones():
    stages = [pure_stage("a", "exponential", 0.5), pure_stage("b", "Laplace", 0.25, steps=2)]
    said = state(stages, 0.0, "replace one record", secure=True)
    assert said.epsilon == pytest.approx(1.0, rel=1e-15)
    assert said.delta == 0
    mixed = [*stages, gaussian_stage("c", 1.0, 10.0, secure=False)]
    alone = compose([mixed[2]], 1e-6)
    assert max(1.0, alone) < compose(mixed, 1e-6) <= 1.0 + alone + 1e-3


def test_the_statement_says_everything():
    stage = gaussian_stage("covariance", 1.0, 3.0, size=100)
    said = state([stage], 1e-6, "add or remove one record", secure=False, public=["the number of records"])
    text = said.text()
    parts = ("epsilon =", "delta = 1e-06", "add or remove", "covariance: Gaussian", "noise scale 3", "dp-accounting")
    for part in (*parts, "the number of records", "PROTECTS NOBODY"):
        assert part in text
    assert said.as_dict()["stages"][0]["scale"] == 3.0
    assert "PROTECTS NOBODY" not in state([stage], 1e-6, "replace one record", secure=True).text()


def test_noise_is_found_for_a_budget():
    def stages_at(factor):
        return [gaussian_stage("a", 1.0, 2.0 * factor, secure=False), gaussian_stage("b", 1.0, factor, secure=False)]

    factor = least_scale(stages_at, 1.0, 1e-6)
    assert 0.99 < compose(stages_at(factor), 1e-6) <= 1.0


def test_an_audit_stays_below_the_truth_and_comes_near_it():
    rng = np.random.default_rng(0)
    true = 1.0
    one, other = rng.laplace(0, 1 / true, 40000), rng.laplace(1, 1 / true, 40000)
    found = audit(one, other)
    assert 0.85 < found.epsilon <= true
    assert audit(other, one).epsilon == pytest.approx(found.epsilon, abs=0.1)
    assert audit(one, rng.laplace(0, 1, 40000)).epsilon < 0.1


def test_an_audit_sees_rare_events_of_two_values():
    rng = np.random.default_rng(2)
    one, other = rng.random(200_000) < 0.0005, rng.random(200_000) < 0.005
    found = audit(one, other)
    assert 1.5 < found.epsilon < math.log(10)


def test_secure_uniform_numbers_cannot_be_one(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: b"\xff" * count)
    assert SecureNoise().uniform(3).max() < 1
    monkeypatch.setattr("os.urandom", lambda count: b"\0" * count)
    assert SecureNoise().uniform(3).min() > 0


def test_an_audit_catches_too_little_noise():
    rng = np.random.default_rng(1)
    multiplier = gaussian_multiplier(1.0, 1e-5)
    honest = audit(rng.normal(0, multiplier, 20000), rng.normal(1, multiplier, 20000), delta=1e-5)
    broken = audit(rng.normal(0, multiplier / 5, 20000), rng.normal(1, multiplier / 5, 20000), delta=1e-5)
    assert honest.epsilon <= 1.0 < broken.epsilon


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pure_stage("a", "m", 0.0), "epsilon is 0.0"),
        (lambda: sampled_gaussian_stage("a", 1, 1, rate=1.5, steps=1), "rate is 1.5"),
        (lambda: gaussian_multiplier(-1, 1e-5), "Epsilon is -1"),
        (lambda: state([gaussian_stage("a", 1, 1)], 0.0, "replace one record", secure=True), "delta 0"),
        (lambda: state([gaussian_stage("a", 1, 1)], 2.0, "replace one record", secure=True), "delta is 2.0"),
        (lambda: audit([1, 2], [3, 4]), "2 and 2 outputs"),
    ],
)
def test_wrong_values_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
