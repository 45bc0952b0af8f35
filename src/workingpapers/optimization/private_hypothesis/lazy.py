r"""The lazy exponential mechanism: the law of the exponential mechanism, from few full scores.

Lower bounds L of the scores come from a small set A of strong candidates, :math:`L(j) \ge \max_{i \in A} w_i(j)`. A
candidate proposed from :math:`e^{-\lambda L}` is scored in full and accepted with probability
:math:`e^{-\lambda(U - L)}`, so that given any history

.. math:: P(\text{accept } j)
    = \frac{e^{-\lambda L(j)}}{Z_L} e^{-\lambda (U(j) - L(j))} = \frac{e^{-\lambda U(j)}}{Z_L},

which is the exponential mechanism's law whatever L was. A may therefore be chosen by looking at the data, for free;
what is not covered is everything else that depends on it: A itself, the number of rounds, the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.privacy.noise import Noise
from workingpapers.foundations.progress import Progress, silent
from workingpapers.optimization.private_hypothesis.sampling import accepts, propose
from workingpapers.optimization.private_hypothesis.scores import Scores

Floats = NDArray[np.float64]


@dataclass
class Diagnostics:
    """What a run did. It depends on the data and is NOT private: never publish it.

    Args:
        rows: Candidates scored in full, in order.
        columns: The strong set A, in order.
        rounds: Proposals made.
        pair_evaluations: Semi-distances computed, n for each row, column and pass over the likelihoods.
    """

    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    rounds: int = 0
    pair_evaluations: int = 0


def lazy_exponential(
    scores: Scores,
    rate: float,
    noise: Noise,
    *,
    refill: int = 2,
    warm: bool = True,
    least_evaluations: int = 0,
    progress: Progress = silent,
) -> tuple[int, Diagnostics]:
    r"""Draw j with probability proportional to :math:`e^{-\lambda U(j)}`, scoring few candidates in full.

    Args:
        scores: Of n candidates, in records.
        rate: Lambda, in one over records; epsilon / 2 for epsilon-differential privacy.
        noise: Source of the random bits.
        refill: Rejections after which the candidate that exposes most of them becomes strong.
        warm: Begin with the candidate of largest likelihood in the strong set.
        least_evaluations: Rows and columns that are computed at least, so that most runs take the same time.
        progress: Called after each row.

    Returns:
        The drawn candidate, and what the run did, which is not private.
    """
    count, done = scores.count, Diagnostics()
    bounds = np.zeros(count)
    cache: dict[int, Floats] = {}
    rejected: list[int] = []

    def strengthen(i: int) -> None:
        np.maximum(bounds, scores.column(i), out=bounds)
        done.columns.append(i)

    if warm:
        done.pair_evaluations += count
        strengthen(scores.likeliest())
    while True:
        done.rounds += 1
        proposal = propose(bounds, rate, noise)
        j = proposal.index
        if j not in cache:
            cache[j] = scores.row(j)
            done.rows.append(j)
            progress(1 - 1 / (1 + len(cache)), f"{len(cache)} candidates scored")
        score = float(cache[j].max())
        if accepts(proposal, score, rate, noise):
            break
        bounds[j] = score
        rejected.append(j)
        if len(rejected) == refill:
            strengthen(int(np.argmax(np.median([cache[k] for k in rejected], axis=0))))
            rejected.clear()
    for extra in range(least_evaluations - len(done.rows) - len(done.columns)):
        scores.row(extra % count)
    done.pair_evaluations += count * (len(done.rows) + len(done.columns))
    return j, done
