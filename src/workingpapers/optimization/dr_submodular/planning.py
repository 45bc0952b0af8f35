"""From a campaign to a plan: offline with an upper bound, online period by period, and a rehearsal of the feedback."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import linprog

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.optimization.dr_submodular.baselines import hedge, measured_greedy
from workingpapers.optimization.dr_submodular.objectives import Coverage, gradient_bound
from workingpapers.optimization.dr_submodular.online import FEEDBACK, OnlineMaximizer
from workingpapers.optimization.dr_submodular.polytope import Polytope
from workingpapers.optimization.dr_submodular.simulation import (
    Exponent,
    Maximum,
    best_fixed,
    certified_regret,
    fit_exponent,
    maximise,
    play,
)
from workingpapers.optimization.dr_submodular.tables import Campaign

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
RUNS = 5
LARGEST = 1_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """Ways to spend, the total profit of each, and what is known about the best.

    Args:
        shares: Way -> shares of full use, shape (T, d).
        profits: Way -> profit of each period, shape (T,).
        chosen: The way that is written out.
        upper_bound: No plan that is the same in all periods has a larger total profit.
        trace: The offline maximum behind it.
        certified: Upper bound of the 1/e-regret of the online method after each period, shape (T,); None offline.
    """

    shares: dict[str, np.ndarray]
    profits: dict[str, np.ndarray]
    chosen: str
    upper_bound: float
    trace: Maximum
    certified: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Certified regret by kind of feedback: `rounds`, shape (k,), `regrets`, shape (runs, k), fitted `exponents`."""

    rounds: tuple[int, ...]
    regrets: dict[str, np.ndarray]
    exponents: dict[str, Exponent]


def plan_offline(campaign: Campaign, seed: int, iterations: int, progress: Progress = silent) -> Plan:
    """Plan one period that is known beforehand.

    Args:
        campaign: One period.
        seed: Seed of the starts of plain ascent.
        iterations: Iterations of the method.
        progress: Called along the way.
    """
    reward = campaign.rewards[0]
    trace = maximise(
        reward, campaign.polytope, iterations=iterations, nodes=_nodes(reward), progress=part(progress, 0, 0.6)
    )
    bound = min(trace.upper_bound, concave_bound(reward, campaign.polytope))
    points = {"exponential wrapper": trace.point, **_others(campaign, reward, seed)}
    profits = {name: np.array([float(reward.value(x)) - campaign.constant]) for name, x in points.items()}
    chosen = max(profits, key=lambda name: float(profits[name][0]))
    shares = {name: x[None, :] for name, x in points.items()}
    return Plan(shares, profits, chosen, bound - campaign.constant, trace)


def plan_online(
    campaign: Campaign, *, feedback: str, learner: str, seed: int, iterations: int, progress: Progress = silent
) -> Plan:
    """Decide period by period, each before its reward is known.

    Args:
        campaign: Several periods, in order.
        feedback: Kind of feedback after each period.
        learner: Learner behind the method.
        seed: Seed of the questions.
        iterations: Iterations of the offline yardstick.
        progress: Called along the way.
    """
    rounds, d = len(campaign.periods), len(campaign.channels)
    total = total_reward(campaign)
    bound = max(gradient_bound(reward, d) for reward in campaign.rewards)
    needs = learner in ("fixed step", "experts")
    if needs and FEEDBACK[feedback].kind == "value":
        raise InputError(
            f"--learner {learner} needs gradients, and --feedback {feedback} gives values; use --learner gradient."
        )

    def stream(t: int) -> Coverage:
        return campaign.rewards[t]

    def player(wrapper: str, kind: str) -> OnlineMaximizer:
        return OnlineMaximizer(
            campaign.polytope, wrapper=wrapper, learner=learner if kind == feedback else "gradient", feedback=kind,
            horizon=rounds, gradient_bound=bound if needs and kind == feedback else None,
            rng=np.random.default_rng(seed),
        )  # fmt: skip

    method = play(player("exponential", feedback), stream, rounds, part(progress, 0, 0.1))
    plain = play(player("plain ascent", "gradient"), stream, rounds, part(progress, 0.1, 0.2))
    full = method if feedback == "gradient" else play(player("exponential", "gradient"), stream, rounds)
    span = campaign.constant + float(campaign.rewards[0].values.sum())
    probabilities, expected = hedge(np.array([full.rewards, plain.rewards]), span)
    trace = maximise(
        total, campaign.polytope, iterations=iterations, nodes=_nodes(total),
        progress=part(progress, 0.2, 0.9),
    )  # fmt: skip
    fixed = {"best fixed plan, in hindsight": trace.point, **_others(campaign, total, seed)}
    best = max(fixed, key=lambda name: float(total.value(fixed[name])))
    fixed["best fixed plan, in hindsight"] = fixed[best]
    name = f"exponential wrapper, {feedback} feedback"
    shares = {
        name: method.actions,
        "plain ascent": plain.actions,
        "Hedge of both, gradients": np.einsum("kt,ktd->td", probabilities, np.array([full.actions, plain.actions])),
        **{key: np.tile(fixed[key], (rounds, 1)) for key in ("equal split", "best fixed plan, in hindsight")},
    }
    profits = {
        key: np.array([float(f.value(x)) for f, x in zip(campaign.rewards, points, strict=True)]) - campaign.constant
        for key, points in shares.items()
    }
    profits["Hedge of both, gradients"] = expected - campaign.constant
    certified = certified_regret(method, stream, campaign.polytope, range(1, rounds + 1), _nodes(campaign.rewards[0]))
    bound = min(trace.upper_bound, concave_bound(total, campaign.polytope))
    return Plan(shares, profits, name, bound - rounds * campaign.constant, trace, certified)


def rehearse(campaign: Campaign, rounds: int, seed: int, progress: Progress = silent) -> Rehearsal:
    """Measure how fast each kind of feedback learns, with periods drawn at random.

    Args:
        campaign: One period or several.
        rounds: The longest horizon; an eighth, a quarter and a half of it are run too.
        seed: Seed of the draws.
        progress: Called along the way.
    """
    horizons = tuple(max(2, round(share * rounds)) for share in SHARES)
    regrets = {name: np.empty((RUNS, len(horizons))) for name in FEEDBACK}
    cells = [(name, run, k) for name in FEEDBACK for run in range(RUNS) for k in range(len(horizons))]
    for done, (name, run, k) in enumerate(cells):
        rng = np.random.default_rng([seed, run, k])
        order = rng.integers(len(campaign.periods), size=horizons[k])
        player = OnlineMaximizer(campaign.polytope, feedback=name, horizon=horizons[k], rng=rng)

        def stream(t: int, order: np.ndarray = order) -> Coverage:
            return campaign.rewards[int(order[t])]

        played = play(player, stream, horizons[k])
        regrets[name][run, k] = certified_regret(played, stream, campaign.polytope, [horizons[k]], 8)[0]
        progress((done + 1) / len(cells), f"rehearsal of {name} feedback")
    fits = {
        name: fit_exponent(horizons, found) if (found > 0).all() else Exponent(math.nan, math.nan, math.nan)
        for name, found in regrets.items()
    }
    return Rehearsal(horizons, regrets, fits)


def _others(campaign: Campaign, reward: Coverage, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    d = len(campaign.channels)
    # The same share for every channel, as large as all limits allow.
    used = campaign.polytope.matrix.sum(axis=1)
    share = min(1.0, float((campaign.polytope.limits[used > 0] / used[used > 0]).min(initial=1.0)))
    return {
        "plain ascent, 10 starts": best_fixed(reward, campaign.polytope, rng, starts=10, steps=200)[0],
        "measured greedy": measured_greedy(reward, campaign.polytope, 100),
        "equal split": np.full(d, share),
    }


def _nodes(reward: Coverage) -> int:
    """Return the number of quadrature nodes: fewer for large tables, whose arrays would not fit."""
    return int(np.clip(2e7 / reward.reach.size, 2, 16))


def total_reward(campaign: Campaign) -> Coverage:
    """Return the reward of all periods together: coverage of the customers of every period.

    Args:
        campaign: One period or several.
    """
    periods = len(campaign.periods)
    return Coverage(
        np.concatenate([reward.reach for reward in campaign.rewards], axis=1),
        np.concatenate([reward.values for reward in campaign.rewards]),
        periods * campaign.costs,
        periods * campaign.constant,
    )


def concave_bound(reward: Coverage, polytope: Polytope) -> float:
    r"""Return an upper bound of a coverage reward, one linear program (infinite for very large tables).

    For each customer :math:`1 - \prod_i (1 - p_i x_i) \le \min(1, \sum_i p_i x_i)`.

    Args:
        reward: f.
        polytope: K.
    """
    if reward.reach.size > LARGEST:
        return math.inf
    count = len(reward.values)
    reached = sparse.hstack([sparse.csr_array(-reward.reach.T), sparse.eye_array(count)])
    limits = sparse.hstack([sparse.csr_array(polytope.matrix), sparse.csr_array((len(polytope.limits), count))])
    result = linprog(
        np.r_[reward.costs, -reward.values],
        A_ub=sparse.vstack([reached, limits]).tocsr(),
        b_ub=np.r_[np.zeros(count), polytope.limits],
        bounds=[(0, cap) for cap in (*polytope.upper, *np.ones(count))],
        method="highs",
    )
    return float(-result.fun) + reward.constant


def spending(campaign: Campaign, shares: np.ndarray) -> np.ndarray:
    """Return money for each period and channel, shape (T, d).

    Args:
        campaign: Gives the costs.
        shares: Shape (T, d).
    """
    return np.asarray(shares * campaign.costs)


def totals(plan: Plan) -> Sequence[tuple[str, float]]:
    """Return the ways to spend with their total profit, best first.

    Args:
        plan: The plan.
    """
    return sorted(((name, float(found.sum())) for name, found in plan.profits.items()), key=lambda item: -item[1])
