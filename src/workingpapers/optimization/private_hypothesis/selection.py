r"""Choosing the candidate closest to private records, with the guarantee stated beside the choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.privacy.noise import Noise, noise_source
from workingpapers.foundations.privacy.statement import PrivacyStatement, Stage, pure_stage, state
from workingpapers.foundations.progress import Progress, silent
from workingpapers.optimization.private_hypothesis.adapters import as_density
from workingpapers.optimization.private_hypothesis.lazy import Diagnostics, lazy_exponential
from workingpapers.optimization.private_hypothesis.rivals import contest, sparse_vector, tournament
from workingpapers.optimization.private_hypothesis.sampling import draw
from workingpapers.optimization.private_hypothesis.scores import (
    DensityScores,
    Scores,
    TableScores,
    all_scores,
    check_table,
    count_points,
    table_scores,
)

Method = Literal["lazy", "full", "sparse_vector", "contest", "tournament"]
PUBLIC = ("the candidates", "the number of records", "the domain")
TIMING = "its running time depends on the data and is not covered: do not publish it"
FEW = 10


@dataclass(frozen=True)
class Selection:
    """A released choice.

    Args:
        index: Number of the chosen candidate.
        hypothesis: The chosen candidate: a row of probabilities, or the object given.
        error_bound: Total variation distance to the data's distribution, beyond three times that of the best
            candidate, that is not exceeded with probability 1 - beta; it does not depend on the data. None for methods
            whose bound needs to know more.
        privacy: The guarantee.
        zero_concentrated: Rho of zero-concentrated privacy, for composing many choices; None where it is not tighter.
        diagnostics: What the run did, which is NOT private; only where it was asked for.
    """

    index: int
    hypothesis: Any
    error_bound: float | None
    privacy: PrivacyStatement
    zero_concentrated: float | None = None
    diagnostics: Diagnostics | None = None


def select_hypothesis(
    candidates: ArrayLike | Sequence[Any],
    data: ArrayLike,
    epsilon: float,
    *,
    method: Method = "lazy",
    beta: float = 0.05,
    seed: int | None = None,
    insecure: bool = False,
    diagnostics: bool = False,
    samples: int = 4000,
    least_evaluations: int = 0,
    progress: Progress = silent,
    **options: Any,
) -> Selection:
    r"""Choose the candidate closest to the distribution of private records in total variation.

    The lazy method draws candidate j with probability proportional to :math:`e^{-\epsilon s W(j) / 2}`, W being the
    largest misfit on a Scheffe set, in nearly linear time on all families tried. With probability 1 - beta

    .. math:: TV(H_j, P) \le 3 \min_i TV(H_i, P) + 2 \sqrt{\frac{\ln(4 n^2 / \beta)}{2 s}}
        + \frac{2}{\epsilon s} \ln \frac{2 n}{\beta}.

    The candidates must not have been fitted to the same records: nobody can detect this, and it voids the guarantee.
    An `InputError` about a record names its value; it is meant for the keeper of the data.

    Args:
        candidates: Probabilities on a finite domain, shape (n, X), rows sum to one; or n densities: frozen scipy.stats
            distributions, fitted scikit-learn mixtures, or objects with ``logpdf(x)`` and ``sample(size, rng)``.
        data: Points 0 .. X - 1, shape (s,); for densities shape (s,) or (s, d).
        epsilon: Privacy budget, over 0.
        method: ``"lazy"``, or for comparison ``"full"`` (the same law, n^2 work), ``"sparse_vector"`` (2025),
            ``"contest"`` (2019), ``"tournament"`` (Laplace noise on every pair); the last two for a finite domain only.
        beta: Probability with which the error bound may fail; ``"sparse_vector"`` runs by it too.
        seed: Leave out; a seed is refused unless `insecure`.
        insecure: The caller's word that the release is a test and protects nobody.
        diagnostics: Return what the run did as well, which is not private; the lazy method alone.
        samples: Public samples from each scored density.
        least_evaluations: Rows and columns computed at least, so that most runs take equally long; the lazy method
            alone.
        progress: Called along the way; what it shows is not private.
        **options: Options of the rival methods, see :mod:`rivals`.

    Returns:
        The choice with its privacy statement.

    Raises:
        InputError: Epsilon or beta out of range, a candidate that is no distribution, a record outside the domain.

    References:
        H. Asi, H. Chen (2026). Aden-Ali, Ashtiani and Kamath (2021), arXiv:2010.09465, for the law.
    """
    if method not in get_args(Method):
        hint = near_match(method, get_args(Method)) or f"; choose one of {', '.join(get_args(Method))}."
        raise InputError(f"The method is {method!r}{hint}")
    check_budget(epsilon, beta)
    noise = noise_source(seed, insecure=insecure)
    scores, known = prepare(candidates, data, samples=samples)
    if scores.records < FEW:
        raise InputError(f"There are {scores.records} records; at least {FEW} are needed to choose anything by them.")
    index, stages, done = _run(method, scores, epsilon, beta, noise, least_evaluations, progress, options)
    proper = method in ("lazy", "full")
    mass_samples = None if isinstance(scores, TableScores) else samples
    public = PUBLIC if mass_samples is None else (*PUBLIC, "the samples from the candidates")
    return Selection(
        index,
        known[index],
        error_bound(scores.count, scores.records, epsilon, beta, samples=mass_samples) if proper else None,
        state(stages, 0.0, "replace one record", secure=noise.secure, public=public),
        epsilon**2 / 8 if proper else None,
        done if diagnostics else None,
    )


def prepare(
    candidates: ArrayLike | Sequence[Any], data: ArrayLike, *, samples: int = 4000
) -> tuple[Scores, Sequence[Any] | np.ndarray]:
    """Return the scores of candidates on data, and the candidates as a sequence.

    Args:
        candidates: As for :func:`select_hypothesis`.
        data: The records.
        samples: Public samples from each scored density.
    """
    if hasattr(candidates, "dtype") or hasattr(candidates, "to_numpy") or _are_rows(candidates):
        table = check_table(np.asarray(candidates))
        scores: Scores = table_scores(table, count_points(data, table.shape[1]))
        return scores, table
    given: Sequence[Any] = list(candidates)  # type: ignore[arg-type]
    return DensityScores([as_density(item) for item in given], data, samples=samples), given


def error_bound(
    candidates: int, records: int, epsilon: float, beta: float = 0.05, *, samples: int | None = None
) -> float:
    r"""Return :math:`2 \sigma + \frac{2}{\epsilon s} \ln \frac{2 n}{\beta}`, :math:`\sigma^2 = \ln(4 n^2/\beta)/(2s)`.

    Args:
        candidates: n.
        records: s.
        epsilon: Privacy budget.
        beta: Probability with which the bound may fail.
        samples: Public samples M behind each mass, where masses are sampled: two more terms of that size.
    """
    check_budget(epsilon, beta)
    risk = beta if samples is None else beta * 2 / 3  # a third of beta for each of three events
    spread = math.log(4 * candidates**2 / risk) / 2
    sampling = math.sqrt(spread / records) + (0.0 if samples is None else math.sqrt(spread / samples))
    return 2 * sampling + 2 * math.log(2 * candidates / risk) / (epsilon * records)


def required_samples(error: float, epsilon: float, candidates: int, beta: float = 0.05) -> int:
    """Return the least number of records at which :func:`error_bound` is at most `error`.

    Args:
        error: Total variation distance, over 0.
        epsilon: Privacy budget.
        candidates: n.
        beta: Probability with which the bound may fail.

    Raises:
        InputError: `error` is not over 0.
    """
    if not (error > 0 and math.isfinite(error)):
        raise InputError(f"The error is {error}; give a number over 0.")
    low, high = 0, 1
    while error_bound(candidates, high, epsilon, beta) > error:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error_bound(candidates, middle, epsilon, beta) > error else (low, middle)
    return high


def check_budget(epsilon: float, beta: float) -> None:
    """Refuse a budget that is none.

    Args:
        epsilon: Must be a finite number over 0.
        beta: Must lie between 0 and 1.

    Raises:
        InputError: One of them is out of range.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"Epsilon is {epsilon}; give a finite number over 0, such as 1.")
    if not 0 < beta < 1:
        raise InputError(f"Beta is {beta}; give a probability over 0 and under 1, such as 0.05.")


def _run(
    method: Method,
    scores: Scores,
    epsilon: float,
    beta: float,
    noise: Noise,
    least_evaluations: int,
    progress: Progress,
    options: dict[str, Any],
) -> tuple[int, Sequence[Stage], Diagnostics | None]:
    if method == "lazy":
        index, done = lazy_exponential(
            scores, epsilon / 2, noise, least_evaluations=least_evaluations, progress=progress, **options
        )
        how = f"exponential mechanism over Scheffe scores, drawn lazily ({TIMING})"
        return index, [pure_stage("choice", how, epsilon, sensitivity=1 / scores.records)], done
    if method == "full":
        index = draw(all_scores(scores, progress), epsilon / 2, noise)
        how = "exponential mechanism over Scheffe scores (do not publish its running time)"
        return index, [pure_stage("choice", how, epsilon, sensitivity=1 / scores.records)], None
    if method == "sparse_vector":
        index, stages, _ = sparse_vector(scores, epsilon, noise, beta=beta, **options)
        return index, stages, None
    if not isinstance(scores, TableScores):
        raise InputError(f"The method {method!r} takes distributions on a finite domain only; use 'lazy'.")
    rival = contest if method == "contest" else tournament
    index, stages = rival(scores, epsilon, noise, **options)
    return index, stages, None


def _are_rows(candidates: Any) -> bool:
    try:
        return bool(len(candidates)) and all(np.ndim(item) == 1 and np.isreal(item).all() for item in candidates)
    except (TypeError, ValueError):
        return False
