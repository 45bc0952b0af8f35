r"""The reward model that would be fitted instead, and how badly it fits.

Bradley-Terry says :math:`P_{ij} = \sigma(r_i - r_j)`. That is more than the existence of a reward: a preference without
any cycle need not be of this form, and one with a faint cycle may nearly be.

References:
    X. Jiang, L.-H. Lim, Y. Yao, Y. Ye, HodgeRank, arXiv:0811.1067.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, xlogy
from scipy.stats import chi2

from workingpapers.foundations.bradley_terry import connectivity, fit_pairs
from workingpapers.foundations.progress import Progress, silent
from workingpapers.preferences.condorcet_nash.matrices import check_preferences, check_wins, win_rates

RIDGE = 1e-3
"""Inverse prior variance of the strengths where maximum likelihood is infinite or groups were never compared."""
FEW = 5.0


@dataclass(frozen=True)
class RewardFit:
    """A Bradley-Terry reward and its fit.

    Args:
        strengths: Rewards in log-odds, shape (n,).
        best: Response of largest reward: where reward maximisation without regularisation ends.
        deviance: G^2 of the reward against free preferences, or None where the number of comparisons is unknown.
        degrees: Degrees of freedom: compared pairs minus (n - groups).
        p_value: Probability of a deviance as large if the reward were right, or None where not tested.
        bootstrapped: Whether the p-value is from a parametric bootstrap, since chi-square needs larger counts.
        curl_share: Share of the log-odds that no reward explains, 0 to 1 (:func:`curl_share`).
        prior: Whether a weak normal prior was needed for finite strengths.
    """

    strengths: np.ndarray
    best: int
    deviance: float | None
    degrees: int
    p_value: float | None
    bootstrapped: bool
    curl_share: float
    prior: bool


def fit_strengths(wins: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return Bradley-Terry strengths, shape (n,), and whether a weak prior was needed.

    Args:
        wins: Wins or shares, shape (n, n).
    """
    won = check_wins(wins)
    winners, losers = np.nonzero(won)
    graph = connectivity(winners, losers, len(won))
    prior = not graph.connected or graph.separated
    fit = fit_pairs(
        winners, losers, len(won), weights=won[winners, losers], ridge=RIDGE if prior else 0.0, covariance=False
    )
    return fit.strengths, prior


def fit_reward(
    wins: np.ndarray,
    *,
    rng: np.random.Generator,
    replicates: int = 200,
    test: bool = True,
    progress: Progress = silent,
) -> RewardFit:
    r"""Fit Bradley-Terry and test it.

    .. math:: G^2 = 2 \sum_{i \ne j} w_{ij} \log \frac{w_{ij}}{N_{ij}\,\sigma(r_i - r_j)}

    Args:
        wins: Numbers of comparisons won, a tie half to each side, shape (n, n).
        rng: Source of randomness of the bootstrap.
        replicates: Bootstrap replicates, used where an expected count is below five.
        test: Whether to test the fit: not where the comparisons depend on each other, as in rankings.
        progress: Called during the bootstrap.

    Returns:
        The fit. Ties counted half each make the test conservative.

    Raises:
        InputError: The wins are malformed, or there is no comparison.
    """
    won = check_wins(wins)
    games = won + won.T
    strengths, prior = fit_strengths(won)
    upper = np.triu(games > 0, 1)
    i, j = np.nonzero(upper)
    groups = len(np.unique(connectivity(i, j, len(won)).components))
    degrees = int(upper.sum()) - (len(won) - groups)
    observed = deviance(won, strengths)
    expected = games * expit(strengths[:, None] - strengths[None, :])
    few = bool((expected[games > 0] < FEW).any())
    p_value: float | None = None
    test = test and degrees > 0
    if test and not few:
        p_value = float(chi2.sf(observed, degrees))
    elif test:
        p_value = _bootstrap(games, strengths, observed, replicates, rng, progress)
    return RewardFit(
        strengths, int(np.argmax(strengths)), observed, degrees, p_value, few and test,
        curl_share(win_rates(won), games), prior,
    )  # fmt: skip


def reward_of_shares(preferences: np.ndarray) -> RewardFit:
    """Fit Bradley-Terry to shares of unknown numbers of comparisons: no test of fit.

    Args:
        preferences: P, shape (n, n), every pair compared equally often; the reward then orders as row sums (Borda) do.
    """
    p = check_preferences(preferences)
    strengths, prior = fit_strengths(p)
    degrees = (len(p) - 1) * (len(p) - 2) // 2
    return RewardFit(strengths, int(np.argmax(strengths)), None, degrees, None, False, curl_share(p), prior)


def deviance(wins: np.ndarray, strengths: np.ndarray) -> float:
    """Return G^2 of the strengths, at least 0.

    Args:
        wins: Shape (n, n).
        strengths: Log-odds, shape (n,).
    """
    games = wins + wins.T
    expected = games * expit(strengths[:, None] - strengths[None, :])
    ratio = np.divide(wins, expected, out=np.ones_like(expected), where=(games > 0) & (wins > 0))
    return max(0.0, 2 * float(xlogy(wins, ratio).sum()))


def curl_share(preferences: np.ndarray, comparisons: np.ndarray | None = None) -> float:
    r"""Return the share of the log-odds that no reward explains (HodgeRank).

    .. math:: \min_r \frac{\sum_{i<j} w_{ij} (F_{ij} - r_i + r_j)^2}{\sum_{i<j} w_{ij} F_{ij}^2}, \qquad
              F_{ij} = \log \frac{P_{ij}}{P_{ji}}

    0 for exact Bradley-Terry preferences, 1 for rock-paper-scissors; 0 too where all pairs tie.

    Args:
        preferences: P, shape (n, n), NaN where never compared.
        comparisons: Numbers of comparisons w, shape (n, n), which also bound the log-odds: shares are kept half a
            comparison away from 0 and 1. Equal weights and a distance of 1e-6 where None.
    """
    p = check_preferences(preferences, missing=True)
    i, j = np.nonzero(np.triu(~np.isnan(p), 1))
    weight = np.ones(len(i)) if comparisons is None else np.asarray(comparisons, dtype=np.float64)[i, j]
    edge = np.full(len(i), 1e-6) if comparisons is None else np.minimum(0.5, 0.5 / weight)
    flow = logit(np.clip(p[i, j], edge, 1 - edge))
    design = np.zeros((len(i), len(p)))
    design[np.arange(len(i)), i], design[np.arange(len(i)), j] = 1.0, -1.0
    scale = np.sqrt(weight)
    reward = np.linalg.lstsq(design * scale[:, None], flow * scale, rcond=None)[0]
    total = float(weight @ flow**2)
    return float(weight @ (flow - design @ reward) ** 2) / total if total > 0 else 0.0


def _bootstrap(
    games: np.ndarray,
    strengths: np.ndarray,
    observed: float,
    replicates: int,
    rng: np.random.Generator,
    progress: Progress,
) -> float:
    """Return the share of data sets drawn from the fit whose deviance is as large, the observed one among them."""
    i, j = np.nonzero(np.triu(games > 0, 1))
    trials = np.rint(games[i, j]).astype(np.int64)
    share = expit(strengths[i] - strengths[j])
    larger = 0
    for replicate in range(replicates):
        drawn = np.zeros_like(games)
        drawn[i, j] = rng.binomial(trials, share)
        drawn[j, i] = trials - drawn[i, j]
        larger += deviance(drawn, fit_strengths(drawn)[0]) >= observed
        progress((replicate + 1) / replicates, "testing the reward model")
    return (1 + larger) / (1 + replicates)
