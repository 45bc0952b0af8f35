"""Richardson's model, thresholds of cooperation and of fear: closed forms, exact fractions, simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.cooperation import (
    Dilemma,
    Surprise,
    after_warning,
    critical_detection,
    critical_discount,
    critical_false_alarm,
    deterring_detection,
    fear_threshold,
    first_strike_index,
    tipping_false_alarm,
    values,
)
from workingpapers.governance.arms_control.richardson import (
    Balance,
    critical_reactions,
    critical_step,
    delay_limits,
    equilibrium,
    is_stable_exact,
    margin,
    ranking,
    sensitivity,
    simulate,
    spectral_radius,
    summary,
)

GAME = Dilemma(5, 3, 1, 0)


def pair(a: float, b: float, m: float, n: float, g: float = 1.0, h: float = 2.0) -> Balance:
    return Balance(np.array([[0, a], [b, 0]]), np.array([m, n]), np.array([g, h]))


def random_balance(rng: np.random.Generator, n: int) -> Balance:
    reaction = rng.exponential(0.25, (n, n)) * (rng.random((n, n)) > 0.2)
    np.fill_diagonal(reaction, 0.0)
    return Balance(reaction, rng.uniform(0.6, 1.4, n), rng.uniform(0, 1, n))


def test_two_actors_in_closed_form() -> None:
    a, b, m, n, g, h = 0.9, 1.0, 1.2, 1.1, 1.0, 2.0
    balance = pair(a, b, m, n, g, h)
    assert m * n == pytest.approx(1.32)
    assert margin(balance) > 0
    assert spectral_radius(balance) == pytest.approx(math.sqrt(a * b / (m * n)))
    point = equilibrium(balance)
    assert point == pytest.approx([(n * g + a * h) / (m * n - a * b), (m * h + b * g) / (m * n - a * b)])
    assert np.abs(balance.jacobian @ point + balance.grievance).max() < 1e-12
    assert margin(pair(1.3, 1.3, 1.2, 1.2)) < 0
    critical = critical_reactions(balance)
    assert critical[0, 1] == pytest.approx(m * n / b)
    assert critical[1, 0] == pytest.approx(m * n / a)
    assert critical[0, 0] == pytest.approx(m - a * b / n)


def test_critical_reactions_stand_exactly_at_the_threshold() -> None:
    rng = np.random.default_rng(1)
    met = 0
    for _ in range(40):
        balance = random_balance(rng, 4)
        critical = critical_reactions(balance)
        for i, j in np.argwhere(np.isfinite(critical)):
            changed = balance.reaction.copy()
            changed[i, j] = critical[i, j]
            assert spectral_radius(Balance(changed, balance.fatigue, balance.grievance)) == pytest.approx(1, abs=1e-6)
            met += 1
    assert met > 400


def test_critical_reactions_that_do_not_exist() -> None:
    # No loop: whatever the first does to the second, nothing comes back.
    chain = Balance(np.array([[0, 0], [0.5, 0]]), np.ones(2), np.ones(2))
    assert critical_reactions(chain)[1, 0] == math.inf
    assert critical_reactions(chain)[0, 1] == pytest.approx(2.0)
    assert sensitivity(chain) is None
    assert ranking(chain) == []
    # Two separate unstable loops: mending one reaction leaves the other.
    twice = np.kron(np.eye(2), np.array([[0, 1.5], [1.5, 0]]))
    assert np.isnan(critical_reactions(Balance(twice, np.ones(4), np.ones(4)))[0, 1])
    assert sensitivity(Balance(twice, np.ones(4), np.ones(4))) is None


def test_sensitivity_against_differences_and_euler() -> None:
    rng = np.random.default_rng(2)
    for n in (2, 3, 5):
        balance = Balance(rng.exponential(0.25, (n, n)), rng.uniform(0.6, 1.4, n), rng.uniform(0, 1, n))
        derivative = sensitivity(balance)
        assert derivative is not None
        assert (balance.reaction * derivative).sum() == pytest.approx(spectral_radius(balance))
        for i in range(n):
            for j in range(n):
                up = balance.reaction.copy()
                up[i, j] += 1e-6
                raised = spectral_radius(Balance(up, balance.fatigue, balance.grievance))
                assert derivative[i, j] == pytest.approx((raised - spectral_radius(balance)) / 1e-6, abs=1e-4)
    places = ranking(balance)
    assert [effect for effect, _, _ in places] == sorted((effect for effect, _, _ in places), reverse=True)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(0, 12), min_size=n, max_size=n), min_size=n, max_size=n),
            st.lists(st.integers(1, 20), min_size=n, max_size=n),
        )
    )
)
def test_exact_rational_test_agrees_with_the_eigenvalues(entries: tuple[list[list[int]], list[int]]) -> None:
    reaction = [[Fraction(x, 10) for x in row] for row in entries[0]]
    fatigue = [Fraction(x, 10) for x in entries[1]]
    balance = Balance(np.array(reaction, float), np.array(fatigue, float), np.zeros(len(fatigue)))
    gap = margin(balance)
    assume(abs(gap) > 1e-9)
    assert is_stable_exact(reaction, fatigue) == (gap > 0)
    assert (np.linalg.eigvals(balance.jacobian).real.max() < 0) == (gap > 0)


def test_exact_test_at_the_threshold_itself() -> None:
    # a b = m n exactly: decimals that binary numbers cannot hold.
    tenth = Fraction(1, 10)
    reaction = [[Fraction(0), 3 * tenth], [4 * tenth, Fraction(0)]]
    assert not is_stable_exact(reaction, [2 * tenth, 6 * tenth])
    assert is_stable_exact(reaction, [2 * tenth, 6 * tenth + Fraction(1, 10**30)])


def test_margin_predicts_divergence_in_simulation() -> None:
    """Random systems of five actors, integrated by scipy, away from the threshold."""
    rng, seen = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(80):
        balance = random_balance(rng, 5)
        gap = margin(balance)
        if abs(gap) <= 0.02:
            continue
        start = equilibrium(balance) + rng.uniform(0.5, 1.0, 5)
        solved = solve_ivp(
            lambda t, x, b=balance: b.jacobian @ x + b.grievance, (0, 400), start, rtol=1e-8, t_eval=[0, 400]
        )
        distance = np.abs(solved.y[:, -1] - equilibrium(balance)).max()
        assert (distance < np.abs(solved.y[:, 0] - equilibrium(balance)).max()) == (gap > 0)
        seen[gap > 0] += 1
    assert min(seen.values()) > 10


def test_stepwise_balance_has_its_own_threshold() -> None:
    balance = pair(0.9, 1.0, 1.2, 1.1)
    largest = np.abs(np.linalg.eigvals(balance.jacobian)).max()
    assert critical_step(balance) == pytest.approx(2 / largest)
    for step, calm in ((0.98 * critical_step(balance), True), (1.02 * critical_step(balance), False)):
        x = equilibrium(balance) + np.array([1.0, -1.0])
        for _ in range(4000):
            x = x + step * (balance.jacobian @ x + balance.grievance)
        assert (np.abs(x - equilibrium(balance)).max() < 1) == calm
    assert critical_step(pair(1.3, 1.3, 1.2, 1.2)) == 0.0


def test_delayed_response_oscillates_and_grows_where_the_formulas_say() -> None:
    balance = pair(0.5, 0.5, 1.0, 1.0)  # eigenvalues -0.5 and -1.5
    limits = delay_limits(balance)
    assert limits.response_oscillates == pytest.approx(1 / (1.5 * math.e))
    assert limits.response_unstable == pytest.approx(math.pi / 3)
    start = equilibrium(balance) + np.array([1.0, -1.0])  # along the fast eigenvector

    def run(delay: float) -> np.ndarray:
        return simulate(balance, start, 60.0, delay=delay, step=0.002)[1][:, 0] - equilibrium(balance)[0]

    below, above = run(0.9 * limits.response_oscillates), run(1.6 * limits.response_oscillates)
    assert (below > -1e-12).all()
    assert (above < -1e-6).any()
    damped, growing = run(0.95 * limits.response_unstable), run(1.05 * limits.response_unstable)
    assert np.abs(damped[-5000:]).max() < 0.5 * np.abs(damped[5000:10000]).max()
    assert np.abs(growing[-5000:]).max() > 2 * np.abs(growing[5000:10000]).max()


def test_delay_in_the_reactions_alone_never_upsets_a_stable_balance() -> None:
    balance = pair(0.9, 1.0, 1.2, 1.1)
    assert delay_limits(balance).reaction == math.inf
    start = equilibrium(balance) + np.array([1.0, -0.5])
    for delay in (0.5, 5.0, 20.0):
        levels = simulate(balance, start, 600.0, delay=delay, delayed="reaction", step=0.02)[1]
        assert np.abs(levels[-1] - equilibrium(balance)).max() < 0.05
    assert delay_limits(pair(1.3, 1.3, 1.2, 1.2)).response_unstable == 0.0


def test_simulation_without_delay_is_the_solution() -> None:
    balance = pair(0.9, 1.0, 1.2, 1.1)
    times, levels = simulate(balance, np.array([5.0, 1.0]), 10.0, step=0.005)
    solved = solve_ivp(lambda t, x: balance.jacobian @ x + balance.grievance, (0, 10), [5.0, 1.0], rtol=1e-10)
    assert times[-1] == pytest.approx(10.0)
    assert levels[-1] == pytest.approx(solved.y[:, -1], rel=1e-4)


def test_summary_holds_only_json_types() -> None:
    import json

    text = json.dumps(summary(pair(0.9, 1.0, 1.2, 1.1)), allow_nan=False)
    assert json.loads(text)["stable"] is True


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([[0, 1], [1, 0]], [1], [1, 1]), "need"),
        (([[0, -1], [1, 0]], [1, 1], [1, 1]), "reaction of actor 1 to actor 2 is -1"),
        (([[0, 1], [1, 0]], [1, 0], [1, 1]), "fatigue of actor 2 is 0"),
        (([[0, 1], [1, math.nan]], [1, 1], [1, 1]), "not finite"),
        (([[0, 1], [1]], [1, 1], [1, 1]), "rows of one length"),
        (([[0, 1], [1, 0]], [1, 1], [1, 1], ("x", "x")), "one different name"),
    ],
)
def test_balances_that_cannot_be(arguments: tuple[object, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Balance(*arguments)  # type: ignore[arg-type]


def test_threshold_itself_has_no_equilibrium() -> None:
    with pytest.raises(InputError, match="exactly at its threshold"):
        equilibrium(Balance(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2), np.ones(2)))
    with pytest.raises(InputError, match="'response' or 'reaction'"):
        simulate(pair(1, 1, 2, 2), np.ones(2), 1.0, delayed="x")


def test_known_discount_thresholds() -> None:
    assert critical_discount(GAME, 1.0) == pytest.approx(0.5)
    assert critical_discount(GAME, 0.5) == pytest.approx(2 / 3)
    assert critical_discount(GAME, 0.2) == pytest.approx(5 / 6)
    assert critical_discount(GAME, 1.0) == pytest.approx((5 - 3) / (5 - 1))
    assert critical_discount(GAME, 0.0) == math.inf


@given(st.floats(0.02, 1), st.floats(0, 0.5))
def test_at_the_threshold_both_values_are_equal(detection: float, false_alarm: float) -> None:
    discount = critical_discount(GAME, detection, false_alarm)
    # Some discount factor suffices iff d / f > (T - P) / (R - P) = 2.
    assert (discount < 1) == (detection > 2 * false_alarm + 1e-12) or abs(detection - 2 * false_alarm) < 1e-9
    if discount < 0.999:
        comply, cheat = values(GAME, discount, detection, false_alarm)
        assert comply == pytest.approx(cheat, rel=1e-9)
        higher = (1 + discount) / 2
        comply, cheat = values(GAME, higher, detection, false_alarm)
        assert comply > cheat
        assert critical_detection(GAME, discount, false_alarm) == pytest.approx(detection, rel=1e-6)
        assert critical_false_alarm(GAME, discount, detection) == pytest.approx(false_alarm, abs=1e-6)


def test_closed_form_with_false_alarms_against_a_numerical_root() -> None:
    root = brentq(lambda delta: np.subtract(*values(GAME, delta, 0.6, 0.05)), 1e-6, 1 - 1e-6)
    assert critical_discount(GAME, 0.6, 0.05) == pytest.approx(root)


def test_value_of_cheating_is_the_mean_of_simulated_histories() -> None:
    """The formulas against the game played out, 20,000 times."""
    rng, discount, detection, false_alarm = np.random.default_rng(4), 0.8, 0.3, 0.1
    until = {"comply": rng.geometric(false_alarm, 20_000), "cheat": rng.geometric(detection, 20_000)}
    for name, each in (("comply", 3.0), ("cheat", 5.0)):
        k = until[name]
        paid = each * (1 - discount**k) / (1 - discount) + 1.0 * discount**k / (1 - discount)
        expected = values(GAME, discount, detection, false_alarm)[name == "cheat"]
        assert abs(paid.mean() - expected) < 4 * paid.std() / math.sqrt(20_000)


def test_least_detection_and_its_impossibility() -> None:
    assert critical_detection(GAME, 2 / 3) == pytest.approx(0.5)
    assert critical_detection(GAME, 0.4) > 1
    for wrong in (0.0, 1.0):
        with pytest.raises(InputError, match="discount factor"):
            critical_detection(GAME, wrong)
    with pytest.raises(InputError, match="detection probability is 2"):
        critical_discount(GAME, 2)
    with pytest.raises(InputError, match="T > R > P > S"):
        Dilemma(3, 5, 1, 0)


def test_fear_of_surprise() -> None:
    crisis = Surprise(hold=0, first=-2, struck=10, both=8)
    p = fear_threshold(crisis)
    assert p == pytest.approx(0.5)
    hold, strike = p * -10 + (1 - p) * 0, p * -8 + (1 - p) * -2
    assert hold == pytest.approx(strike)
    assert fear_threshold(Surprise(0, -4, 10, 8)) > p
    assert after_warning(0.01, 0.9, 0.05) == pytest.approx(0.009 / (0.009 + 0.0495))
    limit = tipping_false_alarm(crisis, 0.01, 0.9)
    assert after_warning(0.01, 0.9, limit) == pytest.approx(p)
    with pytest.raises(InputError, match="V > F and S > D"):
        Surprise(0, 1, 10, 8)
    with pytest.raises(InputError, match="probability 0"):
        after_warning(0.5, 0, 0)


def test_deterrence_and_first_strike_index() -> None:
    assert deterring_detection(1, 3) == 0.25
    p = deterring_detection(2.0, 5.0)
    assert (1 - p) * 2.0 == pytest.approx(p * 5.0)
    assert first_strike_index((10, 20), (10, 20)) == 1
    assert first_strike_index((5, 20), (10, 20)) == 0.5
    with pytest.raises(InputError, match="greater than 0"):
        first_strike_index((0, 1), (1, 1))
    with pytest.raises(InputError, match="not negative"):
        deterring_detection(-1, 3)
