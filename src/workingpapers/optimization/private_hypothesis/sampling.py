r"""Exact draws from :math:`p_j \propto e^{-\lambda U_j}` when only lower bounds of most scores are known.

A proposal j is drawn from integer weights :math:`m_j \ge 2^{40} e^{-\lambda(L_j - \min L)}`, where :math:`L_j \le U_j`,
and is accepted with probability :math:`2^{40} e^{-\lambda(U_j - \min L)} / m_j`. The product depends on L and m only by
a factor common to all j, so whatever the bounds were, an accepted j has the law above. Draws and comparisons are exact:
no rounding of floating-point numbers enters the law.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import Noise

Floats = NDArray[np.float64]
WEIGHT_BITS = 40
MOST = 2**22  # integer weights of 40 bits for so many candidates add up below 2^63
# Floating-point values here err by less than this; a decision nearer to the edge is taken in decimal arithmetic.
SLACK = 1e-9


@dataclass(frozen=True)
class Proposal:
    """A drawn candidate and what its acceptance needs.

    Args:
        index: The candidate.
        weight: Its integer weight m.
        base: Least lower bound at the draw.
    """

    index: int
    weight: int
    base: float


def propose(bounds: Floats, rate: float, noise: Noise) -> Proposal:
    """Draw a candidate with probability proportional to its integer weight.

    Args:
        bounds: Lower bounds of the scores, shape (n,).
        rate: Lambda, in one over the unit of the scores.
        noise: Source of the random bits.
    """
    base = float(bounds.min())
    # One more than rounded up: an upper bound of the true weight whatever the rounding.
    weights = np.floor(np.exp(-rate * (bounds - base)) * (2.0**WEIGHT_BITS * (1 + SLACK))).astype(np.int64) + 1
    reached = np.cumsum(weights)
    index = int(np.searchsorted(reached, random_below(int(reached[-1]), noise), side="right"))
    return Proposal(index, int(weights[index]), base)


def accepts(proposal: Proposal, score: float, rate: float, noise: Noise) -> bool:
    r"""Draw "yes" with probability :math:`2^{40} e^{-\lambda (U - \min L)} / m`, exactly.

    Args:
        proposal: The drawn candidate.
        score: Its score U, at least its lower bound.
        rate: Lambda.
        noise: Source of the random bits.
    """
    drawn, bits = random_bits(64, noise), 64
    share = math.exp(-rate * (score - proposal.base)) * 2.0**WEIGHT_BITS / proposal.weight
    if drawn + 1 < share * 2.0**64 * (1 - SLACK):
        return True
    if drawn - 1 > share * 2.0**64 * (1 + SLACK):
        return False
    exponent = Fraction(rate) * (Fraction(score) - Fraction(proposal.base))
    while True:
        low, high = _exponential(exponent, bits)
        whole = Fraction(proposal.weight, 2 ** (WEIGHT_BITS + bits))
        if (drawn + 1) * whole <= low:
            return True
        if drawn * whole >= high:
            return False
        drawn, bits = (drawn << 64) | random_bits(64, noise), bits + 64


def draw(scores: Floats, rate: float, noise: Noise) -> int:
    r"""Draw j with probability proportional to :math:`e^{-\lambda U_j}` where all scores are known.

    Args:
        scores: U, shape (n,).
        rate: Lambda.
        noise: Source of the random bits.
    """
    while True:
        proposal = propose(scores, rate, noise)
        if accepts(proposal, float(scores[proposal.index]), rate, noise):
            return proposal.index


def random_below(bound: int, noise: Noise) -> int:
    """Return a whole number, uniform on 0 .. bound - 1.

    Args:
        bound: At least 1.
        noise: Source of the random bits.
    """
    while True:
        drawn = random_bits(bound.bit_length(), noise)
        if drawn < bound:
            return drawn


def random_bits(count: int, noise: Noise) -> int:
    """Return a whole number of `count` random bits: the system's where the noise is secure.

    Args:
        count: Number of bits, at least 1.
        noise: Secure, or seeded for tests.
    """
    if noise.secure:
        return int.from_bytes(os.urandom((count + 7) // 8), "big") >> (-count % 8)
    words = np.minimum(noise.uniform((count + 31) // 32) * 2.0**32, 2.0**32 - 1).astype(np.uint64)
    drawn = 0
    for word in words.tolist():
        drawn = (drawn << 32) | word
    return drawn >> (-count % 32)


def check_count(count: int) -> None:
    """Refuse more candidates than exact integer weights allow.

    Args:
        count: Number of candidates.

    Raises:
        InputError: None, or over 2^22.
    """
    if not 1 <= count <= MOST:
        raise InputError(f"There are {count} candidates; give from 1 to {MOST}.")


def _exponential(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return bounds around e^-exponent whose relative distance is below 2^-(bits + 8)."""
    digits = (bits + 16) * 3 // 10 + len(str(int(exponent))) + 12
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    ratio = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    value = Fraction(context.exp(-ratio))
    error = value / 2 ** (bits + 12)
    return value - error, value + error
