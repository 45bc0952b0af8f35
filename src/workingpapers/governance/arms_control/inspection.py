"""Inspection planning: how many items to look at for a wanted probability of detection."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workingpapers.foundations.errors import InputError

EXACT_BELOW = 10_000


def detection_probability(size: int, violations: int, count: int, miss: float = 0.0) -> float:
    r"""Return the probability that a random sample exposes at least one violation.

    :math:`P = 1 - \sum_k \binom{D}{k}\binom{N-D}{n-k}\beta^k / \binom{N}{n}`, with a perfect test
    :math:`1 - \binom{N-D}{n}/\binom{N}{n}`; integers below N = 10,000, log-gamma from there.

    Args:
        size: N, items declared.
        violations: D, items that violate.
        count: n, items inspected without replacement.
        miss: :math:`\beta` in [0, 1], probability that inspecting a violating item shows nothing.

    Returns:
        P in [0, 1].

    Raises:
        InputError: D or n exceeds N, or a number is out of range.
    """
    _check(size, violations, count, miss)
    if violations == 0 or count == 0:
        return 0.0
    if size < EXACT_BELOW:
        return _exact(size, violations, count, miss)
    from scipy.special import gammaln, logsumexp

    def log_choose(n: float, k: np.ndarray | int) -> np.ndarray:
        return np.asarray(gammaln(n + 1) - gammaln(np.asarray(k) + 1) - gammaln(n - np.asarray(k) + 1))

    if miss == 0.0:
        if count > size - violations:
            return 1.0
        return float(-np.expm1(log_choose(size - violations, count) - log_choose(size, count)))
    hits = np.arange(max(0, count - (size - violations)), min(violations, count) + 1)
    terms = log_choose(violations, hits) + log_choose(size - violations, count - hits) + hits * math.log(miss)
    return float(min(1.0, max(0.0, -np.expm1(logsumexp(terms) - log_choose(size, count)))))


def sample_size(size: int, violations: int, wanted: float, miss: float = 0.0) -> int:
    """Return the fewest items to inspect for detection probability `wanted` (bisection on a monotone function).

    Args:
        size: N, items declared.
        violations: D >= 1, violations to be detected.
        wanted: P in (0, 1).
        miss: Probability that inspecting a violating item shows nothing.

    Raises:
        InputError: D is not from 1 to N, P not in (0, 1), or even inspecting everything does not reach P.
    """
    _check(size, violations, 0, miss)
    if violations < 1:
        raise InputError(f"The number of violations is {violations}; plan for at least 1.")
    if not 0 < wanted < 1:
        raise InputError(f"The wanted probability is {wanted:g}; it must be over 0 and under 1.")
    best = 1 - miss**violations
    if best < wanted:
        raise InputError(f"Inspecting all {size} items detects {violations} violations with {best:.4g}, not "
                         f"{wanted:g}; use a better test or inspect repeatedly.")  # fmt: skip
    low, high = 1, size
    while low < high:
        middle = (low + high) // 2
        if detection_probability(size, violations, middle, miss) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def approximate_sample_size(size: int, violations: int, wanted: float) -> int:
    r"""Return the usual approximation :math:`(N - (D-1)/2)(1 - (1-P)^{1/D})`, rounded up.

    Args:
        size: N, items declared.
        violations: D >= 1.
        wanted: P in (0, 1).
    """
    return math.ceil((size - (violations - 1) / 2) * (1 - math.pow(1 - wanted, 1 / violations)) - 1e-9)


def binomial_sample_size(size: int, violations: int, wanted: float) -> int:
    r"""Return the sample size of the binomial approximation, :math:`\log(1-P)/\log(1-D/N)`, rounded up (too large).

    Args:
        size: N, items declared.
        violations: D >= 1.
        wanted: P in (0, 1).
    """
    if violations >= size:
        return 1
    return math.ceil(math.log1p(-wanted) / math.log1p(-violations / size) - 1e-9)


def repeated_detection(share: float, periods: int) -> float:
    r"""Return :math:`1 - (1-p)^T`: detection by T independent inspections that each detect with probability p.

    Args:
        share: p, detection probability of one inspection, in [0, 1].
        periods: T, number of inspections.
    """
    if not 0 <= share <= 1 or periods < 0:
        raise InputError(f"The detection is {share:g} in each of {periods} periods; use 0 to 1 and no negative number.")
    return float(-math.expm1(periods * math.log1p(-share))) if share < 1 else float(periods > 0)


def chip_log_detection(chips: int, violating: int, read: int, days: int) -> float:
    r"""Return the probability of catching a run on K of M chips for T days when s chip logs are read a day.

    :math:`1 - \big(\binom{M-K}{s}/\binom{M}{s}\big)^T`, a fresh sample each day.

    Args:
        chips: M, chips declared.
        violating: K, chips that the run uses.
        read: s, chip logs read a day.
        days: T, days that the run takes.
    """
    return repeated_detection(detection_probability(chips, violating, read), days)


@dataclass(frozen=True)
class Stratum:
    """A class of items that are inspected alike.

    Args:
        name: Its name.
        size: N_h, items declared in it.
        miss: Probability that inspecting a violating item shows nothing.
        cost: Cost of one inspection.
        count: n_h, items inspected.
    """

    name: str
    size: int
    miss: float = 0.0
    cost: float = 1.0
    count: int = 0

    def detection(self, violations: int) -> float:
        """Probability of detection when all `violations` (at most its size) are placed here."""
        return detection_probability(self.size, min(violations, self.size), self.count, self.miss)


def allocate(strata: Sequence[Stratum], violations: int, budget: float) -> list[Stratum]:
    """Spend `budget` so that the least detection over strata is as large as it can be.

    The least can only be raised in the stratum that has it, so the next inspection always goes there; a stratum that is
    inspected whole leaves the race, and spending stops at the first inspection that cannot be paid for.

    Args:
        strata: Strata; their `count` is ignored.
        violations: D, violations that the other side may place in any one of them.
        budget: Sum of costs that may be spent.

    Returns:
        The strata with their counts.

    Raises:
        InputError: No strata, a name twice, or a number out of range.
    """
    _check_strata(strata, violations)
    counts, left = [0] * len(strata), budget
    heap = [(0.0, place) for place in range(len(strata))]
    while heap:
        _, place = heapq.heappop(heap)
        stratum = strata[place]
        if counts[place] == stratum.size:
            continue
        if stratum.cost > left + 1e-12:
            break
        counts[place] += 1
        left -= stratum.cost
        heapq.heappush(heap, (replace(stratum, count=counts[place]).detection(violations), place))
    return [replace(stratum, count=count) for stratum, count in zip(strata, counts, strict=True)]


def worst_placement(strata: Sequence[Stratum], violations: int) -> tuple[float, list[int]]:
    """Return the detection probability against the best placement of D violations, and that placement.

    The violator maximises the product of the strata's miss probabilities over all ways to split D; spreading can beat
    concentrating, because each further violation in one stratum is harder to hide. Exact, by dynamic programming in
    O(strata * D**2).

    Args:
        strata: Strata with their counts.
        violations: D >= 1.

    Raises:
        InputError: More violations than items, or a number out of range.
    """
    _check_strata(strata, violations)
    if violations > sum(stratum.size for stratum in strata):
        raise InputError(
            f"{violations} violations exceed the {sum(s.size for s in strata)} declared items; plan for fewer."
        )
    best = [1.0] + [-1.0] * violations
    choices: list[list[int]] = []
    for stratum in strata:
        room = min(violations, stratum.size)
        missed = [1 - detection_probability(stratum.size, d, stratum.count, stratum.miss) for d in range(room + 1)]
        table, chosen = [-1.0] * (violations + 1), [0] * (violations + 1)
        for total in range(violations + 1):
            for here in range(min(room, total) + 1):
                value = best[total - here] * missed[here] if best[total - here] >= 0 else -1.0
                if value > table[total]:
                    table[total], chosen[total] = value, here
        best, choices = table, [*choices, chosen]
    placement, left = [], violations
    for chosen in reversed(choices):
        placement.append(chosen[left])
        left -= chosen[left]
    return 1 - best[violations], placement[::-1]


def plan_strata(strata: Sequence[Stratum], violations: int, wanted: float) -> list[Stratum]:
    """Return the cheapest water-filling plan whose detection against the worst placement reaches `wanted`.

    Args:
        strata: Strata; their `count` is ignored.
        violations: D, violations to be detected wherever they are placed.
        wanted: P in (0, 1).

    Raises:
        InputError: P is out of range or cannot be reached by inspecting everything.
    """
    if not 0 < wanted < 1:
        raise InputError(f"The wanted probability is {wanted:g}; it must be over 0 and under 1.")
    everything = [replace(stratum, count=stratum.size) for stratum in strata]
    reached, _ = worst_placement(everything, violations)
    if reached < wanted:
        raise InputError(
            f"Inspecting everything detects with probability {reached:.4g}, not {wanted:g}; use better tests."
        )
    cost = sum(stratum.size * stratum.cost for stratum in strata)
    low, high = 0.0, cost
    tick = min(stratum.cost for stratum in strata)
    plan = everything
    while high - low > tick / 2:
        middle = (low + high) / 2
        trial = allocate(strata, violations, middle)
        if worst_placement(trial, violations)[0] >= wanted:
            high, plan = middle, trial
        else:
            low = middle
    return plan


def _exact(size: int, violations: int, count: int, miss: float) -> float:
    from fractions import Fraction

    whole = math.comb(size, count)
    if miss == 0.0:
        return float(1 - Fraction(math.comb(size - violations, count), whole))
    # Ratios of integers are rounded once; the powers of the miss probability are floats in any case.
    missed = math.fsum(
        float(Fraction(math.comb(violations, k) * math.comb(size - violations, count - k), whole)) * miss**k
        for k in range(max(0, count - (size - violations)), min(violations, count) + 1)
    )
    return min(1.0, max(0.0, 1 - missed))


def _check(size: int, violations: int, count: int, miss: float) -> None:
    if size < 1:
        raise InputError(f"The number of items is {size}; there must be at least 1.")
    if not 0 <= violations <= size:
        raise InputError(f"The number of violations is {violations}; it must be from 0 to the {size} items.")
    if not 0 <= count <= size:
        raise InputError(f"The sample size is {count}; it must be from 0 to the {size} items.")
    if not 0 <= miss <= 1:
        raise InputError(f"The miss probability is {miss:g}; it must be from 0 to 1.")


def _check_strata(strata: Sequence[Stratum], violations: int) -> None:
    if not strata or len({stratum.name for stratum in strata}) < len(strata):
        raise InputError("Strata are missing or share a name; give each a name of its own.")
    for stratum in strata:
        _check(stratum.size, 0, stratum.count, stratum.miss)
        if not stratum.cost > 0:
            raise InputError(
                f"An inspection in stratum {stratum.name!r} costs {stratum.cost:g}; it must be more than 0."
            )
    if violations < 1:
        raise InputError(f"The number of violations is {violations}; plan for at least 1.")
