r"""Rewards of sampled judgements from preference pairs: each score is compared with the scores of the other response.

A pair has a chosen response (role 0) and a rejected one (role 1). A judge gives each of them a group of G scores,
:math:`S^c` and :math:`S^r`; a score is right when it lies on the proper side of the *other* group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

Kind = Literal["mean", "margin", "win_rate", "auc", "quantile", "mean_median", "interval", "dead_zone"]
KINDS: tuple[str, ...] = get_args(Kind)
CHOSEN, REJECTED = 0, 1


def intergroup_rewards(
    scores: Any,
    pair_ids: Any,
    roles: Any,
    valid: Any = None,
    *,
    kind: Kind = "mean",
    strength: Any = None,
    margin_base: float = 2.0,
    margin_step: float = 1.0,
    scale: float = 1.0,
    quantile: float = 0.5,
    alpha: float = 0.05,
    dead_zone: float = 0.2,
    low: float = 0.0,
    high: float = 10.0,
    format_penalty: float = 0.5,
    overlong: Any = None,
    exclude_invalid_from_threshold: bool = False,
) -> np.ndarray:
    r"""Return the reward of each sampled score; rows may stand in any order.

    With :math:`\bar S` the mean of a group, a chosen score s is compared with :math:`S^r` and a rejected one with
    :math:`S^c`; equality is never right:

    * ``"mean"``: :math:`R^c = +1` if :math:`s > \bar S^r` else -1, :math:`R^r = +1` if :math:`s < \bar S^c` else -1;
    * ``"margin"``: the same with thresholds :math:`\bar S^r + m` and :math:`\bar S^c - m`,
      :math:`m = (\mathrm{strength} - \mathrm{base}) \cdot \mathrm{step}`;
    * ``"win_rate"``: :math:`R^c = \frac1G \sum_j \sigma((s - s^r_j) / \mathrm{scale})`,
      :math:`R^r = \frac1G \sum_i \sigma((s^c_i - s) / \mathrm{scale})`;
    * ``"auc"``: :math:`R^c = \frac1G \sum_j 1[s > s^r_j]`, :math:`R^r = \frac1G \sum_i 1[s < s^c_i]`;
    * ``"quantile"``: thresholds are the q-quantile of :math:`S^r` and the (1 - q)-quantile of :math:`S^c`;
    * ``"mean_median"``: thresholds are half of mean and median;
    * ``"interval"``: thresholds are the upper end of the (1 - alpha) Student interval of :math:`\bar S^r` and the
      lower end of that of :math:`\bar S^c`;
    * ``"dead_zone"``: as ``"mean"``, and 0 where the score is within `dead_zone` of the threshold.

    An unparsable judgement counts as the worst score of its role (`low` for chosen, `high` for rejected) and loses
    `format_penalty` on top.

    Args:
        scores: Scores of the judgements, shape (n,); values of invalid rows are not looked at.
        pair_ids: Which pair each judgement belongs to, integers or texts, shape (n,).
        roles: 0 for a judgement of the chosen response, 1 for the rejected one, shape (n,).
        valid: Whether each judgement could be read, booleans, shape (n,); None: all. A score outside [low, high] or
            not finite is invalid anyhow.
        kind: How scores are compared.
        strength: For ``"margin"``: strength of the preference, equal within a pair, shape (n,).
        margin_base: Strength at which the margin is zero.
        margin_step: Points of score for each degree of strength.
        scale: For ``"win_rate"``: points of score of one nat.
        quantile: For ``"quantile"``: q in [0, 1]; 0.5 is the median, more is stricter.
        alpha: For ``"interval"``: error probability in (0, 1).
        dead_zone: Points of score.
        low: Least score.
        high: Largest score.
        format_penalty: What an unparsable judgement loses, and an overlong one.
        overlong: Which judgements are too long, booleans, shape (n,); None: none.
        exclude_invalid_from_threshold: Leave substituted scores out of what the other group is compared with, where
            any valid one is left. The released method keeps them.

    Returns:
        Rewards, float64, shape (n,), in the order of the rows.

    Raises:
        ValueError: For shapes or values that do not fit, a pair without one of its roles or with groups of different
            size, ``"margin"`` without strengths, ``"interval"`` or ``"quantile"`` with a single judgement a group.

    References:
        H. Song et al., IRPM, arXiv:2601.00677.
    """
    values = np.asarray(scores, dtype=float)
    names, groups = np.asarray(pair_ids), np.asarray(roles)
    _check(kind, values, names, groups, low=low, high=high, quantile=quantile, alpha=alpha, scale=scale)
    readable = np.ones(len(values), dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
    readable = readable & np.isfinite(values) & (values >= low) & (values <= high)
    values = np.where(readable, values, np.where(groups == CHOSEN, low, high))
    margins = _margins(kind, strength, margin_base, margin_step, len(values))
    rewards = np.empty(len(values))
    for name, (chosen, rejected) in pair_rows(names, groups).items():
        if kind in ("interval", "quantile") and len(chosen) < 2:
            raise ValueError(f"kind {kind!r} needs two judgements a response or more; pair {name} has {len(chosen)}.")
        if np.ptp(margins[np.r_[chosen, rejected]]) > 0:
            raise ValueError(f"The rows of pair {name} have different strengths; give all of them the same.")
        for own, other, sign in ((chosen, rejected, 1.0), (rejected, chosen, -1.0)):
            kept = other[readable[other]] if exclude_invalid_from_threshold else other
            # Turned round, a rejected score must exceed the rejected side of a mirrored pair: one rule for both roles.
            rewards[own] = _compare(
                sign * values[own], sign * values[kept if len(kept) else other], kind, margins[own[0]],
                scale=scale, quantile=quantile, alpha=alpha, dead_zone=dead_zone,
            )  # fmt: skip
    penalised = (~readable).astype(float)
    if overlong is not None:
        penalised += np.asarray(overlong, dtype=bool)
    return np.asarray(rewards - format_penalty * penalised)


def intragroup_advantages(rewards: Any, pair_ids: Any, roles: Any, *, epsilon: float = 1e-6) -> np.ndarray:
    r"""Return GRPO's advantages, normalised within each response's own group and never over both.

    .. math:: A_i = (R_i - \bar R) / (\mathrm{std}(R) + \epsilon)

    Args:
        rewards: Rewards, shape (n,).
        pair_ids: Pair of each, shape (n,).
        roles: 0 or 1, shape (n,).
        epsilon: Keeps groups of equal rewards at zero.

    Returns:
        Advantages, float64, shape (n,), with the standard deviation of samples (n - 1).

    Raises:
        ValueError: As in :func:`intergroup_rewards`; and for groups of one, which have no deviation.
    """
    values = np.asarray(rewards, dtype=float)
    found = np.empty(len(values))
    for name, sides in pair_rows(np.asarray(pair_ids), np.asarray(roles)).items():
        for rows in sides:
            if len(rows) < 2:
                raise ValueError(f"Pair {name} has one judgement a response; advantages need two or more.")
            centred = values[rows] - values[rows].mean()
            found[rows] = centred / (values[rows].std(ddof=1) + epsilon)
    return found


def pair_rows(pair_ids: np.ndarray, roles: np.ndarray) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
    """Return the rows of the chosen and of the rejected response of each pair.

    Args:
        pair_ids: Pair of each row, shape (n,).
        roles: 0 or 1, shape (n,).

    Raises:
        ValueError: For other roles, a missing role, or groups of different size.
    """
    if wrong := sorted({str(role) for role in roles.tolist()} - {"0", "1", "0.0", "1.0", "False", "True"}):
        raise ValueError(f"A role is {wrong[0]}; use 0 for chosen and 1 for rejected.")
    found = {}
    names, inverse = np.unique(pair_ids, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    for name, rows in zip(names, np.split(order, np.cumsum(np.bincount(inverse))[:-1]), strict=True):
        chosen, rejected = rows[roles[rows] == CHOSEN], rows[roles[rows] == REJECTED]
        if not (len(chosen) and len(rejected)):
            raise ValueError(
                f"Pair {name} has no {'rejected' if len(chosen) else 'chosen'} judgement; keep both responses of a "
                "pair in one batch."
            )
        if len(chosen) != len(rejected):
            raise ValueError(f"Pair {name} has {len(chosen)} chosen and {len(rejected)} rejected judgements; sample as "
                             "many of both.")  # fmt: skip
        found[name.item()] = (chosen, rejected)
    return found


def _compare(
    own: np.ndarray, other: np.ndarray, kind: str, margin: float, *, scale: float, quantile: float, alpha: float,
    dead_zone: float,
) -> np.ndarray:  # fmt: skip
    """Return the rewards of scores that ought to be larger than the other group's."""
    from scipy.special import expit

    gaps = own[:, None] - other[None, :]
    if kind == "win_rate":
        return np.asarray(expit(gaps / scale).mean(axis=1))
    if kind == "auc":
        return np.asarray((gaps > 0).mean(axis=1))
    # The mean of equal scores may differ from them by rounding, which would turn "equal" into "larger".
    middle = other[0] if np.ptp(other) == 0 else other.mean()
    if kind == "dead_zone":
        distance = own - middle
        return np.where(np.abs(distance) <= dead_zone, 0.0, np.sign(distance))
    threshold = {
        "mean": lambda: middle,
        "margin": lambda: middle + margin,
        "quantile": lambda: np.quantile(other, quantile),
        "mean_median": lambda: (middle + np.median(other)) / 2,
        "interval": lambda: middle + _half_width(other, alpha),
    }[kind]()
    return np.where(own > threshold, 1.0, -1.0)


def _half_width(values: np.ndarray, alpha: float) -> float:
    from scipy.stats import t

    if len(values) < 2:  # only where invalid scores were left out
        return 0.0
    return float(t.ppf(1 - alpha / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def _margins(kind: str, strength: Any, base: float, step: float, count: int) -> np.ndarray:
    if kind != "margin":
        return np.zeros(count)
    if strength is None:
        raise ValueError("kind 'margin' needs the strength of each preference; give strength, or use kind 'mean'.")
    degrees = np.asarray(strength, dtype=float)
    if degrees.shape != (count,) or not np.isfinite(degrees).all():
        raise ValueError(f"strength has shape {degrees.shape}; {count} finite numbers are needed.")
    return (degrees - base) * step


def _check(kind: str, values: np.ndarray, names: np.ndarray, roles: np.ndarray, **numbers: float) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; use one of {', '.join(KINDS)}.")
    shapes: Sequence[tuple[int, ...]] = (values.shape, names.shape, roles.shape)
    if values.ndim != 1 or len(set(shapes)) > 1 or not len(values):
        raise ValueError(f"scores, pair_ids and roles have shapes {shapes}; one number a judgement is needed in each.")
    if not numbers["low"] < numbers["high"]:
        raise ValueError(f"low is {numbers['low']} and high {numbers['high']}; low must be less.")
    for name, good in (("quantile", 0 <= numbers["quantile"] <= 1), ("alpha", 0 < numbers["alpha"] < 1),
                       ("scale", numbers["scale"] > 0)):  # fmt: skip
        if not good:
            raise ValueError(f"{name} is {numbers[name]}; it is out of range.")
