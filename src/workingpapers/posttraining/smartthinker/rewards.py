r"""The reward: a target length and a weight of the penalty for each group, in closed form.

Lengths of all answers of a group are modelled as normal with mean :math:`\mu_1` and variance :math:`\sigma_1^2`, those
of its right answers with :math:`\mu_2, \sigma_2^2`. By Bayes' rule the probability of a right answer given its length
goes with the ratio of the two densities.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workingpapers.foundations.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TieRule = Literal["calculus", "published"]
WideRule = Literal["min", "none"]

EPSILON = 1e-6
EQUAL = 1e-6  # variances closer than this are taken for equal, as published


class Branch(IntEnum):
    """How the target length of a group was found."""

    NONE_CORRECT = 0
    ALL_CORRECT = 1
    EQUAL_SPREAD = 2
    WIDER_CORRECT = 3
    PEAK = 4


@dataclass(frozen=True)
class LengthRewards:
    """Rewards of n answers in m groups, and what they are made of.

    Args:
        rewards: r, float64, shape (n,).
        advantages: GRPO's advantages of these rewards, float64, shape (n,).
        excess: Tokens of a right answer beyond the target, 0 for wrong ones, float64, shape (n,).
        group_of: Row of each answer's group in what follows, shape (n,).
        groups: Identity of each group, sorted, shape (m,).
        target: The length where right answers are most frequent, within the group's lengths, float64, shape (m,).
        coefficient: Lambda, a token's price, float64, shape (m,).
        error_rate: Share of wrong answers, float64, shape (m,).
        branch: How the target was found, :class:`Branch`, shape (m,).
        clipped: Whether the peak lay outside the group's lengths, shape (m,).
    """

    rewards: Floats
    advantages: Floats
    excess: Floats
    group_of: Integers
    groups: NDArray[Any]
    target: Floats
    coefficient: Floats
    error_rate: Floats
    branch: Integers
    clipped: NDArray[np.bool_]

    @property
    def branch_shares(self) -> dict[str, float]:
        """Share of the groups in each branch, by its name in lower case."""
        return {branch.name.lower(): float((self.branch == branch).mean()) for branch in Branch}

    @property
    def penalised(self) -> float:
        """Share of the groups in which some answer is penalised; the others are plain GRPO."""
        return float((self.coefficient > 0).mean())


def smart_length_rewards(
    correct: ArrayLike,
    lengths: ArrayLike,
    groups: ArrayLike,
    *,
    eps: float = EPSILON,
    tie_rule: TieRule = "calculus",
    wide_rule: WideRule = "min",
) -> LengthRewards:
    r"""Return rewards that shorten right answers beyond the length at which a group's accuracy peaks.

    With excess :math:`s_i = a_i \max(0, l_i - l^*)` and the share of wrong answers :math:`p`,

    .. math:: r_i = a_i - \Lambda s_i, \qquad \Lambda = \frac{p}{\max_i s_i - \frac1G \sum_i s_i + \epsilon},

    and :math:`\Lambda = 0` where no answer is right, all are, or none is too long. For :math:`\epsilon = 0` it is the
    largest weight that leaves every right answer at or above the mean reward of its group: the longest one gets
    advantage 0, wrong ones never a positive one.

    Args:
        correct: 1 for a right answer, 0 for a wrong one, shape (n,).
        lengths: Tokens of each answer with its end mark, at least 1, shape (n,).
        groups: Identity of each answer's prompt, in any order, at least two answers each, shape (n,).
        eps: Added to the denominator, in tokens.
        tie_rule: Where both variances are equal the ratio of the densities has no peak but a slope: "calculus" goes the
            way it rises, "published" the other way, as the released code does.
        wide_rule: Where right answers vary more than all do the ratio has a valley: "min" takes the shortest length,
            as published, "none" penalises nothing.

    Raises:
        InputError: When shapes do not fit, a verdict is not 0 or 1, a length is under 1 or a group holds one answer.

    References:
        arXiv:2603.08000.
    """
    right, tokens, identities, rows = _checked(correct, lengths, groups)
    if not eps >= 0:
        raise InputError(f"eps is {eps}; it must not be negative.")
    count = len(identities)
    size = np.bincount(rows, minlength=count)
    error_rate = 1 - np.bincount(rows, right, count) / size
    target, branch, clipped = _targets(right, tokens, rows, count, tie_rule, wide_rule)
    excess = right * np.maximum(0.0, tokens - target[rows])
    largest = np.zeros(count)
    np.maximum.at(largest, rows, excess)
    live = (largest > 0) & (error_rate > 0)
    spread = largest - np.bincount(rows, excess, count) / size + eps
    coefficient = np.divide(error_rate, spread, out=np.zeros(count), where=live)
    rewards = right - coefficient[rows] * excess
    return LengthRewards(
        rewards, group_advantages(rewards, rows), excess, rows, identities, target, coefficient, error_rate, branch,
        clipped,
    )  # fmt: skip


def optimal_length(mean: float, variance: float, mean_correct: float, variance_correct: float) -> float:
    r"""Return the length at which the ratio of two normal densities, right answers over all, is largest.

    .. math:: l^* = \frac{\sigma_1^2 \mu_2 - \sigma_2^2 \mu_1}{\sigma_1^2 - \sigma_2^2}

    Args:
        mean: Of all lengths, tokens.
        variance: Of all lengths, over that of right answers.
        mean_correct: Of the lengths of right answers, tokens.
        variance_correct: Of the lengths of right answers; 0 puts the peak on their mean.

    Raises:
        InputError: When right answers vary as much as all do or more: there is no peak.
    """
    if not 0 <= variance_correct < variance:
        raise InputError(
            f"The variance of right answers is {variance_correct} and that of all {variance}; a peak needs the first "
            "to be smaller."
        )
    return float(_peak(*map(np.float64, (mean, variance, mean_correct, variance_correct))))


def group_advantages(rewards: ArrayLike, groups: ArrayLike, *, eps: float = EPSILON) -> Floats:
    r"""Return GRPO's advantages in each group, :math:`(r_i - \bar r) / (\mathrm{std}(r) + \epsilon)`, shape (n,).

    Args:
        rewards: Shape (n,).
        groups: Identity of each answer's prompt, shape (n,).
        eps: Added to the standard deviation, which is the unbiased one.
    """
    values = np.asarray(rewards, dtype=np.float64)
    _, rows, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    gaps = values - (np.bincount(rows, values) / size)[rows]
    deviation = np.sqrt(np.bincount(rows, gaps**2) / np.maximum(size - 1, 1))
    return np.asarray(gaps / (deviation[rows] + eps))


def ae_score(
    length: float,
    accuracy: float,
    base_length: float,
    base_accuracy: float,
    *,
    alpha: float = 1.0,
    beta: float = 3.0,
    gamma: float = 5.0,
) -> float:
    r"""Return the score of accuracy and efficiency against a base model that the paper's tables use.

    With :math:`\Delta L = (L_0 - L) / L_0` and :math:`\Delta A = (A - A_0) / A_0` it is
    :math:`\alpha \Delta L + \beta \Delta A`, or :math:`\alpha \Delta L - \gamma |\Delta A|` where accuracy was lost.

    Args:
        length: Mean length in tokens.
        accuracy: Mean accuracy, in any unit.
        base_length: Of the base model.
        base_accuracy: Of the base model, in the same unit.
        alpha: Weight of length.
        beta: Weight of accuracy won.
        gamma: Weight of accuracy lost.

    Raises:
        InputError: When a figure of the base model is not positive.
    """
    if not (base_length > 0 and base_accuracy > 0):
        raise InputError(
            f"The base model has length {base_length} and accuracy {base_accuracy}; both must be positive to compare."
        )
    shorter, better = (base_length - length) / base_length, (accuracy - base_accuracy) / base_accuracy
    return alpha * shorter + (beta if better >= 0 else gamma) * better


def _checked(
    correct: ArrayLike, lengths: ArrayLike, groups: ArrayLike
) -> tuple[Floats, Floats, NDArray[Any], Integers]:
    right, tokens = np.asarray(correct, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    identities = np.asarray(groups)
    shapes = [array.shape for array in (right, tokens, identities)]
    if right.ndim != 1 or len(set(shapes)) > 1 or not len(right):
        raise InputError(f"Verdicts, lengths and groups have shapes {shapes}; give one of each an answer, shape (n,).")
    wrong = np.flatnonzero((right != 0) & (right != 1))
    if len(wrong):
        raise InputError(f"Verdict {wrong[0]} is {right[wrong[0]]:g}; give 0 or 1, scores cut at a threshold.")
    wrong = np.flatnonzero(~(np.isfinite(tokens) & (tokens >= 1)))
    if len(wrong):
        raise InputError(f"Length {wrong[0]} is {tokens[wrong[0]]:g}; give tokens with the end mark, 1 or more.")
    names, rows, size = np.unique(identities, return_inverse=True, return_counts=True)
    if size.min() < 2:
        raise InputError(f"Group {names[size.argmin()]!s} holds one answer; two or more are needed to compare.")
    return right, tokens, names, rows.astype(np.int64)


def _targets(
    right: Floats, tokens: Floats, rows: Integers, count: int, tie_rule: TieRule, wide_rule: WideRule
) -> tuple[Floats, Integers, NDArray[np.bool_]]:
    """Return each group's target, its branch, and whether the peak was clipped, shape (m,) each."""
    if tie_rule not in ("calculus", "published") or wide_rule not in ("min", "none"):
        raise InputError(
            f"tie_rule is {tie_rule!r} and wide_rule {wide_rule!r}; use calculus or published, and min or none."
        )
    shortest, longest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(shortest, rows, tokens)
    np.maximum.at(longest, rows, tokens)
    mean, variance = _moments(tokens, np.ones_like(tokens), rows, count)
    mean_right, variance_right = _moments(tokens, right, rows, count)
    size, hits = np.bincount(rows, minlength=count), np.bincount(rows, right, count)
    equal = np.abs(variance - variance_right) < EQUAL
    branch = np.select(
        [hits == 0, hits == size, equal, variance_right > variance],
        [Branch.NONE_CORRECT, Branch.ALL_CORRECT, Branch.EQUAL_SPREAD, Branch.WIDER_CORRECT],
        Branch.PEAK,
    )
    peaked = branch == Branch.PEAK
    peak = longest.copy()
    peak[peaked] = _peak(mean[peaked], variance[peaked], mean_right[peaked], variance_right[peaked])
    # Log-ratio of equal variances: slope (mu_2 - mu_1) / sigma^2.
    falls = mean_right < mean if tie_rule == "calculus" else mean_right >= mean
    target = np.select(
        [branch == Branch.ALL_CORRECT, (branch == Branch.EQUAL_SPREAD) & falls,
         (branch == Branch.WIDER_CORRECT) & (wide_rule == "min"), peaked],
        [shortest, shortest, shortest, np.clip(peak, shortest, longest)],
        longest,
    )  # fmt: skip
    return target, branch.astype(np.int64), peaked & ((peak < shortest) | (peak > longest))


def _moments(tokens: Floats, weights: Floats, rows: Integers, count: int) -> tuple[Floats, Floats]:
    """Return means and population variances of each group's weighted lengths, 0 where there are none."""
    total = np.maximum(np.bincount(rows, weights, count), 1)
    mean = np.bincount(rows, weights * tokens, count) / total
    return mean, np.bincount(rows, weights * (tokens - mean[rows]) ** 2, count) / total


def _peak(mean: Any, variance: Any, mean_right: Any, variance_right: Any) -> Any:
    # The quotient of the docstring, written so that it is mu_2 to the last bit where sigma_2 = 0.
    return mean_right + variance_right * (mean_right - mean) / (variance - variance_right)
