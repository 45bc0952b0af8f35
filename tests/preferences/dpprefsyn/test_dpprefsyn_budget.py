"""Accounting: published settings, budgets kept and used up, statements that say what was done."""

import math

import numpy as np
import pytest

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.accounting import compose, compose_rdp
from workingpapers.foundations.privacy.auditing import audit
from workingpapers.foundations.privacy.noise import SecureNoise, SeededNoise
from workingpapers.foundations.privacy.statement import sampled_gaussian_stage
from workingpapers.preferences.dpprefsyn.budget import (
    Settings,
    _cost,
    check_budget,
    count_records,
    make_statement,
    plan_budget,
)

PUBLISHED = [  # records, noise multiplier of DP-SGD, its epsilon at delta = 1 / records
    (14_167, 0.808, 0.729),
    (14_167, 0.671, 1.459),
    (14_167, 0.566, 2.934),
    (14_167, 0.471, 5.878),
    (160_800, 0.620, 0.718),
    (160_800, 0.412, 5.899),
    (92_858, 0.501, 2.930),
]


@pytest.mark.parametrize(("records", "multiplier", "expected"), PUBLISHED)
def test_the_authors_settings_cost_what_they_say(records, multiplier, expected):
    rate = 4 / (records // 9)
    stage = sampled_gaussian_stage("DP-SGD", 1.0, multiplier, rate=rate, steps=int(4 / rate), secure=False)
    assert _cost([stage], 1 / records, 1e-3) == pytest.approx(expected, abs=0.02)
    assert compose_rdp([stage], 1 / records) >= expected - 0.02


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(clusters=1, projection="none"), Settings(rewards="centres"), Settings(batch=10**6)],
    ids=["all stages", "gradients alone", "centres", "full batches"],
)
def test_a_plan_keeps_its_budget_and_uses_it_up(epsilon, settings):
    plan = plan_budget(5000, 64, epsilon, 1e-5, settings, secure=True)
    cost = compose(plan.stages(64, secure=True), 1e-5)
    assert 0.985 * epsilon < cost <= epsilon
    assert compose_rdp(plan.stages(64, secure=True), 1e-5) >= cost


def test_the_coarse_grid_of_the_search_is_a_close_upper_bound():
    stages = plan_budget(5000, 64, 1.0, 1e-5).stages(64, secure=True)
    fine = compose(stages, 1e-5)
    assert fine <= _cost(stages, 1e-5, 1e-3) <= 1.002 * fine


def test_more_noise_costs_less_and_more_epochs_cost_more():
    plan = plan_budget(9000, 64, 1.0, 1e-5, Settings(batch=50))
    cost = _cost(plan.stages(64, secure=True), 1e-5, 1e-3)
    for louder in (plan.scaled(1.1, 1, 1), plan.scaled(1, 1.1, 1), plan.scaled(1, 1, 1.1)):
        assert _cost(louder.stages(64, secure=True), 1e-5, 1e-3) < cost
    longer = plan_budget(9000, 64, 1.0, 1e-5, Settings(batch=50, epochs=8))
    assert longer.steps == 2 * plan.steps
    assert longer.gradient_scale > plan.gradient_scale


def test_the_schedule_follows_the_smallest_admissible_cluster():
    plan = plan_budget(9000, 64, math.inf, 1e-5)
    assert plan.size_floor == 1000
    assert plan.rate == pytest.approx(64 / 1000)
    assert plan.steps == round(4 / plan.rate)
    assert (plan.moment_scale, plan.cluster_scale, plan.size_scale, plan.gradient_scale) == (0, 0, 0, 0)


def test_stages_name_every_use_of_the_records():
    plan = plan_budget(5000, 64, 1.0, 1e-5)
    moments, sums, sizes, gradients = plan.stages(64, secure=True)
    assert moments.scale / moments.multiplier == pytest.approx(1.0, rel=0.01)
    assert sums.scale / sums.multiplier == pytest.approx(math.sqrt(2), rel=0.01)
    assert sizes.scale / sizes.multiplier == pytest.approx(1.0, rel=0.01)
    assert gradients.scale / gradients.multiplier == pytest.approx(1.0, rel=0.01)
    assert moments.multiplier < plan.moment_scale  # the lattice of secure noise costs a little
    assert (sums.steps, gradients.steps, gradients.rate) == (3, plan.steps, plan.rate)
    assert [stage.name for stage in plan_budget(5000, 64, 1.0, 1e-5, Settings(clusters=1)).stages(64, secure=True)] == [
        "second moments",
        "reward gradients",
    ]


def test_the_number_of_records_is_itself_released():
    seen = {count_records(1234, math.inf, SeededNoise(0))[0]}
    assert seen == {1200}
    drawn = [count_records(10_049, 1.0, SeededNoise(seed))[0] for seed in range(300)]
    assert set(drawn) >= {9900, 10_000}
    released, stage = count_records(50_000, 2.0, SecureNoise())
    assert abs(released - 50_000) < 2000
    assert stage.epsilon == pytest.approx(0.04, rel=1e-4)
    assert stage.epsilon >= 0.04
    with pytest.raises(InputError, match="released number of records is"):
        count_records(3, 100.0, SeededNoise(0))


def test_audit_of_the_number_of_records():
    def counted(records, factor, kind):
        return [count_records(records, 50.0 * factor, SeededNoise([kind, run]))[0] for run in range(4000)]

    stated = 1.0  # a fiftieth of 50
    # Between 99 and 100 the rounding changes its step, which tells the two sets apart as well as anything can.
    assert audit(counted(99, 1, 0), counted(100, 1, 1)).epsilon <= stated
    assert audit(counted(99, 5, 0), counted(100, 5, 1)).epsilon > stated


def test_the_statement_adds_the_count_to_the_rest():
    _, first = count_records(5000, 1.0, SecureNoise())
    plan = plan_budget(5000, 16, 1.0 - first.epsilon, 1e-5)
    said = make_statement(first, plan, 16, 1e-5, secure=True, public=("the encoder",))
    assert said.epsilon == pytest.approx(first.epsilon + compose(plan.stages(16, secure=True), 1e-5), rel=1e-12)
    assert 0.985 < said.epsilon <= 1.0
    text = said.text()
    for part in ("number of records: Laplace", "second moments", "cluster sizes", "sampling rate", "the encoder"):
        assert part in text
    assert "PROTECTS NOBODY" not in text


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [(0, 1e-6, "Epsilon is 0"), (-1, 1e-6, "Epsilon is -1"), (math.inf, 1e-6, "Epsilon is inf"), (1, 0, "Delta is 0"),
     (1, 1, "Delta is 1"), (math.nan, 0.1, "Epsilon is nan")],
)  # fmt: skip
def test_budgets_that_guarantee_nothing_are_refused(epsilon, delta, said):
    with pytest.raises(InputError, match=said):
        check_budget(epsilon, delta)


def test_settings_are_looked_at():
    with pytest.raises(InputError, match="clusters is 0"):
        Settings(clusters=0)
    with pytest.raises(InputError, match="split is"):
        Settings(split=(0.5, 0.5, 0.0))
    with pytest.raises(InputError, match="nothing is learned"):
        plan_budget(1000, 8, 1.0, 1e-5, Settings(clusters=1, rewards="centres", projection="none"))
    assert np.isclose(sum(Settings().split), 1)
