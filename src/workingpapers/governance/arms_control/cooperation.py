"""Cooperation under verification, fear of surprise and deterrence by inspection: thresholds in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workingpapers.foundations.errors import InputError


@dataclass(frozen=True)
class Dilemma:
    """Payoffs of a prisoner's dilemma for each period.

    Args:
        temptation: T, cheating on a party that complies.
        reward: R, both comply.
        punishment: P, both arm.
        sucker: S, complying with a party that cheats.

    Raises:
        InputError: Not T > R > P > S.
    """

    temptation: float
    reward: float
    punishment: float
    sucker: float

    def __post_init__(self) -> None:
        order = (self.temptation, self.reward, self.punishment, self.sucker)
        if not all(math.isfinite(value) for value in order) or not order[0] > order[1] > order[2] > order[3]:
            raise InputError(f"The payoffs T, R, P, S are {order}; a dilemma needs T > R > P > S.")


def critical_discount(game: Dilemma, detection: float, false_alarm: float = 0.0) -> float:
    r"""Return the smallest discount factor at which complying pays, or ``inf`` where none below 1 suffices.

    Cheating is noticed each period with probability d, complying is mistaken for cheating with probability f, and
    either ends cooperation for ever. Complying is worth :math:`V_c = (R + \delta f V_P)/(1 - \delta(1-f))`, cheating
    :math:`V_d = (T + \delta d V_P)/(1 - \delta(1-d))` with :math:`V_P = P/(1-\delta)`, and :math:`V_c \ge V_d` iff

    .. math:: \delta \ge \delta^* = \frac{T - R}{(T-P)(1-f) - (R-P)(1-d)}.

    Without false alarms this is :math:`(T-R)/((T-R) + d(R-P))`, with certain detection besides :math:`(T-R)/(T-P)`.
    Some :math:`\delta < 1` suffices iff :math:`d/f > (T-P)/(R-P)`.

    Args:
        game: Payoffs for each period.
        detection: d, probability in [0, 1] that a period of cheating is noticed.
        false_alarm: f, probability in [0, 1] that a period of compliance is taken for cheating.

    Returns:
        :math:`\delta^*` in (0, 1), or ``inf``.

    Raises:
        InputError: A probability is outside [0, 1].
    """
    d, f = _probability(detection, "detection"), _probability(false_alarm, "false alarm")
    gain = game.temptation - game.reward
    denominator = (game.temptation - game.punishment) * (1 - f) - (game.reward - game.punishment) * (1 - d)
    return gain / denominator if denominator > gain else math.inf


def critical_detection(game: Dilemma, discount: float, false_alarm: float = 0.0) -> float:
    r"""Return the least detection probability at which complying pays; above 1 means that no verification suffices.

    :math:`d^* = 1 - \frac{(T-P)(1-f) - (T-R)/\delta}{R-P}`, without false alarms :math:`(T-R)(1-\delta)/(\delta(R-P))`.

    Args:
        game: Payoffs for each period.
        discount: :math:`\delta` in (0, 1), weight of the next period.
        false_alarm: f in [0, 1].

    Raises:
        InputError: The discount factor is not in (0, 1), or f not in [0, 1].
    """
    if not 0 < discount < 1:
        raise InputError(f"The discount factor is {discount:g}; it must be over 0 and under 1.")
    f = _probability(false_alarm, "false alarm")
    kept = (game.temptation - game.punishment) * (1 - f) - (game.temptation - game.reward) / discount
    return 1 - kept / (game.reward - game.punishment)


def critical_false_alarm(game: Dilemma, discount: float, detection: float) -> float:
    r"""Return the highest false-alarm rate that cooperation bears; negative means that it fails even without any.

    :math:`f^* = 1 - \frac{(T-R)/\delta + (R-P)(1-d)}{T-P}`.

    Args:
        game: Payoffs for each period.
        discount: :math:`\delta` in (0, 1).
        detection: d in [0, 1].

    Raises:
        InputError: The discount factor is not in (0, 1), or d not in [0, 1].
    """
    if not 0 < discount < 1:
        raise InputError(f"The discount factor is {discount:g}; it must be over 0 and under 1.")
    d = _probability(detection, "detection")
    needed = (game.temptation - game.reward) / discount + (game.reward - game.punishment) * (1 - d)
    return 1 - needed / (game.temptation - game.punishment)


def values(game: Dilemma, discount: float, detection: float, false_alarm: float = 0.0) -> tuple[float, float]:
    r"""Return the discounted values of complying and of cheating for ever, :math:`V_c` and :math:`V_d`.

    Args:
        game: Payoffs for each period.
        discount: :math:`\delta` in (0, 1).
        detection: d in [0, 1].
        false_alarm: f in [0, 1].
    """
    after = game.punishment / (1 - discount)
    comply = (game.reward + discount * false_alarm * after) / (1 - discount * (1 - false_alarm))
    cheat = (game.temptation + discount * detection * after) / (1 - discount * (1 - detection))
    return comply, cheat


@dataclass(frozen=True)
class Surprise:
    """Payoffs of a crisis in which each side fears that the other moves first.

    Args:
        hold: V, both hold.
        first: F, striking first.
        struck: S, loss when struck first (positive).
        both: D, loss when both strike (positive).

    Raises:
        InputError: Not V > F and S > D: holding would never, or always, be the better choice.
    """

    hold: float
    first: float
    struck: float
    both: float

    def __post_init__(self) -> None:
        if not (self.hold > self.first and self.struck > self.both):
            raise InputError(f"The payoffs V, F, S, D are {(self.hold, self.first, self.struck, self.both)}; "
                             "the threshold needs V > F and S > D.")  # fmt: skip


def fear_threshold(crisis: Surprise) -> float:
    r"""Return the believed probability of attack above which striking is the better choice.

    :math:`p^* = (V-F)/((V-F)+(S-D))`; the higher, the more stable the crisis.

    Args:
        crisis: Payoffs of the crisis.

    References:
        T. C. Schelling, The Strategy of Conflict (1960), chapter 9.
    """
    calm, fear = crisis.hold - crisis.first, crisis.struck - crisis.both
    return calm / (calm + fear)


def after_warning(prior: float, hit: float, false_alarm: float) -> float:
    r"""Return the belief after a warning, :math:`p h/(p h + (1-p) f)`.

    Args:
        prior: p, belief before the warning, in [0, 1].
        hit: h, probability of a warning given an attack, in [0, 1].
        false_alarm: f, probability of a warning without one, in [0, 1].

    Raises:
        InputError: A probability is outside [0, 1], or the warning is impossible (no hits, no false alarms).
    """
    p, h, f = _probability(prior, "prior"), _probability(hit, "hit"), _probability(false_alarm, "false alarm")
    seen = p * h + (1 - p) * f
    if seen == 0:
        raise InputError("A warning has probability 0 under these rates; give a hit or false-alarm rate above 0.")
    return p * h / seen


def tipping_false_alarm(crisis: Surprise, prior: float, hit: float) -> float:
    r"""Return the false-alarm rate below which one warning tips the crisis, :math:`f^* = p h(1-p^*)/((1-p)p^*)`.

    A warning system with more false alarms is not believed enough to strike on; with fewer, one alarm suffices. Above 1
    means that a warning tips the crisis at every rate.

    Args:
        crisis: Payoffs of the crisis.
        prior: p, belief before the warning, in [0, 1).
        hit: h, probability of a warning given an attack, in [0, 1].

    Raises:
        InputError: A probability is outside [0, 1], or the prior is 1.
    """
    p, h = _probability(prior, "prior"), _probability(hit, "hit")
    if p == 1:
        raise InputError("The prior is 1: attack is taken as certain; give a prior under 1.")
    threshold = fear_threshold(crisis)
    return p * h * (1 - threshold) / ((1 - p) * threshold)


def first_strike_index(first: tuple[float, float], second: tuple[float, float]) -> float:
    r"""Return :math:`\prod_i c^{first}_i / c^{second}_i` over two sides: 1 where going first gains nothing.

    Experimental: the index follows the usual description of first-strike stability; it was not checked against its
        source.

    Args:
        first: Cost of going first for each side, positive.
        second: Cost of going second for each side, positive.

    Raises:
        InputError: A cost is not positive.
    """
    if min(*first, *second) <= 0:
        raise InputError(f"The costs are {first} and {second}; they must be greater than 0.")
    return first[0] / second[0] * first[1] / second[1]


def deterring_detection(gain: float, loss: float) -> float:
    r"""Return the detection probability that deters, :math:`b/(b+L)`.

    A violator gains b unseen and loses L when detected, so violating pays while :math:`(1-P) b > P L`.

    Args:
        gain: b, what the violator gains unseen, not negative.
        loss: L, what the violator loses when detected, in the same unit.

    Raises:
        InputError: A value is negative or both are 0.
    """
    if gain < 0 or loss < 0 or gain + loss == 0:
        raise InputError(f"The gain is {gain:g} and the loss {loss:g}; give numbers that are not negative, not both 0.")
    return gain / (gain + loss)


def _probability(value: float, name: str) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"The {name} probability is {value:g}; it must be from 0 to 1.")
    return value
