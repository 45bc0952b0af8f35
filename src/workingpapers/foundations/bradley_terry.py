r"""Strengths from comparisons: Bradley-Terry, Davidson's ties, Plackett-Luce rankings; priors, intervals, diagnosis.

Strengths :math:`\theta_i` are log-odds: :math:`P(i \text{ beats } j) = \sigma(\theta_i - \theta_j)`. Without a prior
they are determined up to a constant and returned with mean zero.

References:
    R. A. Bradley and M. E. Terry, Biometrika 39 (1952). R. R. Davidson, JASA 65 (1970). R. L. Plackett, Applied
    Statistics 24 (1975). L. R. Ford, American Mathematical Monthly 64 (1957), for when the estimate exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse as sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logsumexp

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.logistic import LogisticFit, fit_logistic

ELO_PER_LOGIT = 400 / np.log(10)


@dataclass(frozen=True)
class Connectivity:
    """Whether strengths can be compared, and whether their estimates are finite.

    Args:
        components: Component of each player in the graph of comparisons, shape (n,). Players of different components
            were never compared, not even through others.
        blocks: Strongly connected block of each player in the graph of wins, shape (n,). Where there are several,
            some group never lost to another: without a prior its strength is infinite (separation).
    """

    components: np.ndarray
    blocks: np.ndarray

    @property
    def connected(self) -> bool:
        """Whether every two players are compared, directly or through others."""
        return len(np.unique(self.components)) <= 1

    @property
    def separated(self) -> bool:
        """Whether the estimate without a prior is infinite (Ford's condition fails)."""
        return len(np.unique(self.blocks)) > 1


@dataclass(frozen=True)
class StrengthFit:
    """Fitted strengths.

    Args:
        strengths: Log-odds, float64, shape (n,).
        covariance: Laplace covariance of the strengths, shape (n, n), or None where it was not asked for.
        log_likelihood: Of the data.
        log_tie: Davidson's log nu, or None without ties.
        converged: Whether the optimiser met its tolerance.
        iterations: Steps of the optimiser.
    """

    strengths: np.ndarray
    covariance: np.ndarray | None
    log_likelihood: float
    log_tie: float | None
    converged: bool
    iterations: int

    def standard_errors(self) -> np.ndarray:
        """Return standard errors of the strengths, shape (n,)."""
        if self.covariance is None:
            raise InputError("The fit has no covariance; fit again with covariance=True.")
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def elo(self, center: float = 1000.0) -> np.ndarray:
        """Return ratings on the Elo scale, where 400 points are odds of ten to one, shape (n,)."""
        return np.asarray(center + ELO_PER_LOGIT * self.strengths)


def connectivity(winners: np.ndarray, losers: np.ndarray, players: int) -> Connectivity:
    """Diagnose the graph of comparisons.

    Args:
        winners: Player numbers, int, shape (m,). A tie counts as a win of each side: give it twice.
        losers: Player numbers, shape (m,).
        players: Number of players n.
    """
    graph = sparse.csr_matrix((np.ones(len(winners)), (winners, losers)), shape=(players, players))
    _, components = connected_components(graph, directed=False)
    _, blocks = connected_components(graph, directed=True, connection="strong")
    return Connectivity(components, blocks)


def fit_pairs(
    winners: np.ndarray,
    losers: np.ndarray,
    players: int,
    *,
    weights: np.ndarray | None = None,
    ridge: float = 0.0,
    covariance: bool = True,
    start: np.ndarray | None = None,
    tolerance: float = 1e-8,
) -> StrengthFit:
    r"""Fit Bradley-Terry strengths to decided games.

    .. math:: \max_\theta \sum_g w_g \log \sigma(\theta_{a_g} - \theta_{b_g}) - \tfrac{\rho}{2} \lVert\theta\rVert^2

    Games of one pair are pooled first, so the cost grows with the number of different pairs.

    Args:
        winners: Winner of each game, int, shape (m,).
        losers: Loser of each game, int, shape (m,).
        players: Number of players n.
        weights: Weight of each game, shape (m,); ones where None.
        ridge: :math:`\rho`, the inverse variance of a normal prior on each strength; 0 for maximum likelihood.
        covariance: Whether to compute the (n, n) Laplace covariance.
        start: Strengths to start from, shape (n,).
        tolerance: See :func:`~workingpapers.foundations.logistic.fit_logistic`.

    Returns:
        The fit. With ``ridge=0`` strengths have mean zero.

    Raises:
        InputError: A number is not a player, a player meets itself, or ``ridge`` is 0 and the estimate does not exist
            (players that were never compared, or separation): the sentence says which and to use a prior.
    """
    first, second, wins, games = pool_pairs(winners, losers, players, weights)
    if ridge == 0:
        won, lost = wins > 0, wins < games
        graph = connectivity(np.r_[first[won], second[lost]], np.r_[second[won], first[lost]], players)
        _refuse_infinite(graph)
    design = pair_design(first, second, players)
    fit = fit_logistic(
        design,
        wins / games,
        weights=games,
        ridge=ridge,
        flat=np.ones((players, 1)) if ridge == 0 else None,
        start=start,
        tolerance=tolerance,
    )
    return _as_strengths(fit, covariance)


def pool_pairs(
    winners: np.ndarray, losers: np.ndarray, players: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the different pairs: first and second player (first < second), wins of the first, games; shapes (k,).

    Raises:
        InputError: Shapes disagree, a number is not a player, or a player meets itself.
    """
    a, b = np.asarray(winners), np.asarray(losers)
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=np.float64)
    if a.shape != b.shape or a.shape != w.shape or a.ndim != 1:
        raise InputError(f"winners, losers and weights have shapes {a.shape}, {b.shape}, {w.shape}; make them equal.")
    if len(a) == 0:
        raise InputError("There are no games; give at least one.")
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    if low < 0 or high >= players:
        raise InputError(
            f"Player {low if low < 0 else high} is not among 0 to {players - 1}; number the players from 0."
        )
    if (a == b).any():
        raise InputError(f"Player {a[a == b][0]} meets itself; remove such games.")
    if (w < 0).any() or not np.isfinite(w).all():
        raise InputError(f"A weight is {w[(w < 0) | ~np.isfinite(w)][0]}; weights must be finite and not negative.")
    swapped = a > b
    code = np.where(swapped, b, a).astype(np.int64) * players + np.where(swapped, a, b)
    pairs, where = np.unique(code, return_inverse=True)
    games = np.bincount(where, weights=w, minlength=len(pairs))
    wins = np.bincount(where, weights=w * ~swapped, minlength=len(pairs))
    kept = games > 0
    return (pairs // players)[kept], (pairs % players)[kept], wins[kept], games[kept]


def pair_design(first: np.ndarray, second: np.ndarray, players: int) -> sparse.csr_matrix:
    """Return the design with +1 at the first player and -1 at the second, shape (k, players)."""
    k = len(first)
    columns = np.column_stack([first, second]).ravel()
    values = np.tile([1.0, -1.0], k)
    return sparse.csr_matrix((values, columns, np.arange(0, 2 * k + 1, 2)), shape=(k, players))


def fit_ties(
    first: np.ndarray,
    second: np.ndarray,
    outcome: np.ndarray,
    players: int,
    *,
    weights: np.ndarray | None = None,
    ridge: float = 0.0,
    covariance: bool = True,
) -> StrengthFit:
    r"""Fit Davidson's model, in which a tie is an outcome of its own.

    With :math:`d = \theta_i - \theta_j`:
    :math:`P(i) : P(\text{tie}) : P(j) = e^{d/2} : \nu : e^{-d/2}`.

    Args:
        first: First player of each game, int, shape (m,).
        second: Second player, shape (m,).
        outcome: 1 the first won, 0 the second won, 0.5 a tie; shape (m,).
        players: Number of players n.
        weights: Weight of each game, shape (m,).
        ridge: Inverse prior variance of the strengths; the tie parameter has none.
        covariance: Whether to compute the (n, n) Laplace covariance.

    Returns:
        The fit with ``log_tie`` = log nu.

    Raises:
        InputError: An outcome is not 0, 0.5 or 1, there is no tie or nothing but ties, or see :func:`fit_pairs`.
    """
    i, j, y = np.asarray(first), np.asarray(second), np.asarray(outcome, dtype=np.float64)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    pool_pairs(i, j, players, w)  # the same checks
    if not np.isin(y, (0.0, 0.5, 1.0)).all():
        raise InputError(f"An outcome is {y[~np.isin(y, (0.0, 0.5, 1.0))][0]}; use 1, 0.5 (a tie) or 0.")
    ties = y == 0.5
    if not ties.any() or ties.all():
        raise InputError("Davidson's model needs both ties and decided games; use fit_pairs without ties.")
    if ridge == 0:
        _refuse_infinite(connectivity(np.r_[i[y > 0], j[y < 1]], np.r_[j[y > 0], i[y < 1]], players))
    design = pair_design(i, j, players)

    def terms(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        half = 0.5 * (design @ parameters[:-1])
        logits = np.column_stack([half, np.full_like(half, parameters[-1]), -half])
        return half, logits, logsumexp(logits, axis=1)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        half, logits, total = terms(parameters)
        p = np.exp(logits - total[:, None])
        chosen = np.where(ties, parameters[-1], np.where(y == 1, half, -half))
        value = w @ (total - chosen) + 0.5 * ridge * (parameters[:-1] @ parameters[:-1])
        slope = 0.5 * (p[:, 0] - p[:, 2]) - (y - 0.5) * np.where(ties, 0.0, 1.0)
        gradient = np.append(design.T @ (w * slope) + ridge * parameters[:-1], w @ (p[:, 1] - ties))
        return float(value), gradient

    found = scipy.optimize.minimize(
        objective,
        np.zeros(players + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9},
    )
    parameters = found.x
    if ridge == 0:
        parameters[:-1] -= parameters[:-1].mean()
    spread = _ties_covariance(design, terms(parameters), w, ridge) if covariance else None
    likelihood = -float(objective(parameters)[0] - 0.5 * ridge * (parameters[:-1] @ parameters[:-1]))
    return StrengthFit(parameters[:-1], spread, likelihood, float(parameters[-1]), bool(found.success), int(found.nit))


def fit_rankings(
    rankings: Sequence[Sequence[int]],
    players: int,
    *,
    weights: np.ndarray | None = None,
    ridge: float = 0.0,
    covariance: bool = True,
) -> StrengthFit:
    r"""Fit Plackett-Luce strengths to rankings, best first; partial rankings are rankings of what they list.

    .. math:: P(\pi) = \prod_{k} \frac{e^{\theta_{\pi_k}}}{\sum_{l \ge k} e^{\theta_{\pi_l}}}

    Args:
        rankings: Lists of player numbers, best first, each without repetition; lengths may differ.
        players: Number of players n.
        weights: Weight of each ranking, shape (len(rankings),).
        ridge: Inverse prior variance; 0 for maximum likelihood.
        covariance: Whether to compute the (n, n) Laplace covariance.

    Raises:
        InputError: A ranking repeats a player or lists none, or see :func:`fit_pairs`.
    """
    w = np.ones(len(rankings)) if weights is None else np.asarray(weights, dtype=np.float64)
    stages = _stages(rankings, players, w)
    if ridge == 0:
        edges = [(ranking[k], later) for ranking in rankings for k in range(len(ranking)) for later in ranking[k + 1 :]]
        winners, losers = np.array(edges).T if edges else (np.zeros(0, int), np.zeros(0, int))
        _refuse_infinite(connectivity(winners, losers, players))

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.5 * ridge * float(theta @ theta), ridge * theta
        for members, chosen, weight in stages:
            scores = theta[members]
            total = logsumexp(scores, axis=1)
            value += float(weight @ (total - theta[chosen]))
            share = np.exp(scores - total[:, None]) * weight[:, None]
            gradient = gradient + np.bincount(members.ravel(), weights=share.ravel(), minlength=players)
            gradient = gradient - np.bincount(chosen, weights=weight, minlength=players)
        return value, gradient

    found = scipy.optimize.minimize(
        objective,
        np.zeros(players),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9},
    )
    theta = found.x - (found.x.mean() if ridge == 0 else 0.0)
    spread = _rankings_covariance(stages, theta, ridge) if covariance else None
    likelihood = -(objective(theta)[0] - 0.5 * ridge * float(theta @ theta))
    return StrengthFit(theta, spread, likelihood, None, bool(found.success), int(found.nit))


def win_probability(strengths: np.ndarray, log_tie: float | None = None) -> np.ndarray:
    """Return P(i beats j) for all pairs, shape (n, n), 1/2 on the diagonal; a tie counts half.

    Args:
        strengths: Log-odds, shape (n,).
        log_tie: Davidson's log nu, or None.
    """
    difference = strengths[:, None] - strengths[None, :]
    if log_tie is None:
        return np.asarray(expit(difference))
    logits = np.stack([difference / 2, np.full_like(difference, log_tie), -difference / 2])
    win, tie, _ = np.exp(logits - logsumexp(logits, axis=0))
    return np.asarray(win + tie / 2)


def cluster_bootstrap(
    refit: Callable[[np.ndarray], np.ndarray],
    clusters: np.ndarray,
    draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return estimates under resampling of whole clusters, shape (draws, p).

    Games that share an item or a session are not independent; resampling them one by one gives intervals that are far
    too narrow.

    Args:
        refit: Takes weights, shape (m,), and returns the estimate, shape (p,).
        clusters: Cluster of each game, any labels, shape (m,).
        draws: Number of resamples.
        rng: Source of randomness.
    """
    labels, where = np.unique(clusters, return_inverse=True)
    counts = rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), size=draws)
    return np.stack([refit(count[where].astype(np.float64)) for count in counts])


def _as_strengths(fit: LogisticFit, covariance: bool) -> StrengthFit:
    spread = fit.covariance() if covariance else None
    return StrengthFit(fit.coefficients, spread, fit.log_likelihood, None, fit.converged, fit.iterations)


def _refuse_infinite(graph: Connectivity) -> None:
    if not graph.connected:
        number = len(np.unique(graph.components))
        raise InputError(
            f"The players fall into {number} groups that were never compared with each other; rate each group by "
            "itself or give a prior (ridge > 0)."
        )
    if graph.separated:
        sizes = np.bincount(graph.blocks)
        player = int(np.flatnonzero(graph.blocks == int(np.argmin(sizes)))[0])
        raise InputError(
            f"The estimate is infinite: a group of {sizes.min()} players with player {player} won or lost all its "
            "games against the rest; give a prior (ridge > 0)."
        )


def _stages(
    rankings: Sequence[Sequence[int]], players: int, weights: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the choices in all rankings by number of candidates c: members (s, c), chosen (s,), weight (s,)."""
    groups: dict[int, list[tuple[Sequence[int], float]]] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if len(set(ranking)) != len(ranking) or not len(ranking):
            raise InputError(f"The ranking {list(ranking)[:8]} repeats a player or lists none; list each player once.")
        if min(ranking) < 0 or max(ranking) >= players:
            raise InputError(f"The ranking {list(ranking)[:8]} names a player that is not among 0 to {players - 1}.")
        for position in range(len(ranking) - 1):
            groups.setdefault(len(ranking) - position, []).append((ranking[position:], float(weight)))
    if not groups:
        raise InputError("No ranking lists two players; there is nothing to compare.")
    found = []
    for rows in groups.values():
        members = np.array([row for row, _ in rows], dtype=np.int64)
        found.append((members, members[:, 0], np.array([weight for _, weight in rows])))
    return found


def _rankings_covariance(
    stages: list[tuple[np.ndarray, np.ndarray, np.ndarray]], theta: np.ndarray, ridge: float
) -> np.ndarray:
    n = len(theta)
    hessian = ridge * np.eye(n)
    for members, _, weight in stages:
        scores = theta[members]
        share = np.exp(scores - logsumexp(scores, axis=1)[:, None])
        np.add.at(hessian, (members, members), share * weight[:, None])
        outer = share[:, :, None] * share[:, None, :] * weight[:, None, None]
        rows = np.broadcast_to(members[:, :, None], outer.shape)
        columns = np.broadcast_to(members[:, None, :], outer.shape)
        np.subtract.at(hessian, (rows, columns), outer)
    return _pseudo_inverse(hessian, ridge)


def _ties_covariance(
    design: sparse.csr_matrix, terms: tuple[np.ndarray, np.ndarray, np.ndarray], weights: np.ndarray, ridge: float
) -> np.ndarray:
    _, logits, total = terms
    p = np.exp(logits - total[:, None])
    push = 0.5 * (p[:, 0] - p[:, 2])
    strengths = 0.25 * (p[:, 0] + p[:, 2]) - push**2
    mixed, tie = -p[:, 1] * push, p[:, 1] * (1 - p[:, 1])
    block = (design.T @ sparse.diags(weights * strengths) @ design).toarray() + ridge * np.eye(design.shape[1])
    cross = design.T @ (weights * mixed)
    # Marginal over the tie parameter: Schur complement.
    return _pseudo_inverse(block - np.outer(cross, cross) / float(weights @ tie), ridge)


def _pseudo_inverse(hessian: np.ndarray, ridge: float) -> np.ndarray:
    n = len(hessian)
    gauge = np.full((n, n), 1 / n) if ridge == 0 else np.zeros((n, n))
    return np.asarray(np.linalg.inv(hessian + gauge) - gauge)
