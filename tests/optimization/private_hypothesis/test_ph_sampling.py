"""The exact sampler: weights above the true ones, decisions that agree with decimal arithmetic, the right law."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import SecureNoise, SeededNoise
from workingpapers.optimization.private_hypothesis import sampling
from workingpapers.optimization.private_hypothesis.sampling import (
    Proposal,
    accepts,
    draw,
    propose,
    random_below,
    random_bits,
)


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(0)], ids=["secure", "seeded"])
def test_bits_and_numbers_are_uniform(noise):
    drawn = [random_bits(67, noise) for _ in range(2000)]
    assert max(drawn) < 2**67
    for bit in (0, 1, 30, 31, 32, 64, 66):
        ones = sum(value >> bit & 1 for value in drawn)
        assert stats.binomtest(ones, 2000).pvalue > 1e-6, bit
    counts = np.bincount([random_below(7, noise) for _ in range(7000)], minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-6
    assert {random_below(1, noise) for _ in range(5)} == {0}


def test_a_draw_has_the_softmax_law():
    scores, rate = np.array([0.0, 1.0, 1.0, 4.0, 40.0, 1e6]), 0.7
    law = np.exp(-rate * scores) / np.exp(-rate * scores).sum()
    noise = SeededNoise(1)
    counts = np.bincount([draw(scores, rate, noise) for _ in range(20_000)], minlength=6)
    assert counts[4:].sum() == 0
    assert stats.chisquare(counts[:4], 20_000 * law[:4] / law[:4].sum()).pvalue > 1e-3


def test_weights_never_fall_below_the_true_ones(monkeypatch):
    """Exactness needs m >= 2^40 e^(-rate (L - min L)) for every candidate, also where it underflows."""
    bounds = np.concatenate([[3.0], 3 + np.geomspace(1e-9, 1e5, 60)])
    for index in range(len(bounds)):
        # The first ticket of a candidate is the sum of the weights before it.
        tickets = iter([0])
        monkeypatch.setattr(sampling, "random_below", lambda bound, noise, tickets=tickets: next(tickets))
        weight = propose(np.roll(bounds, -index), 0.35, SeededNoise(0)).weight
        base, own = Fraction(bounds.min()), Fraction(bounds[index])
        with localcontext() as context:
            context.prec = 60
            gap = Fraction(0.35) * (own - base)
            exact = Decimal(2) ** 40 * (-(Decimal(gap.numerator) / Decimal(gap.denominator))).exp()
        assert Decimal(weight) >= exact
        assert Decimal(weight) <= exact * Decimal("1.00000001") + 1


def test_decisions_at_the_edge_are_those_of_exact_arithmetic(monkeypatch):
    """Random bits are set so close to the acceptance probability that floating point cannot decide."""
    proposal, score, rate = Proposal(0, 2**39, 0.0), 1.0, 1.0
    with localcontext() as context:
        context.prec = 80
        edge = int(Decimal(-1).exp() * 2 * 2**128)  # acceptance probability 2 / e, to 128 bits
    for shift, expected in ((-3, True), (3, False), (-1000, True), (1000, False)):
        halves = iter([(edge + shift) >> 64, (edge + shift) & (2**64 - 1)])
        monkeypatch.setattr(sampling, "random_bits", lambda count, noise, halves=halves: next(halves))
        assert accepts(proposal, score, rate, SeededNoise(0)) is expected


def test_acceptance_has_its_probability():
    noise, proposal = SeededNoise(3), Proposal(0, 2**40, 2.0)
    yes = sum(accepts(proposal, 3.5, 0.6, noise) for _ in range(10_000))
    assert stats.binomtest(yes, 10_000, np.exp(-0.9)).pvalue > 1e-3
    assert all(accepts(Proposal(0, 2**40, 2.0), 2.0, 0.6, noise) for _ in range(100))
    assert not any(accepts(proposal, 1e9, 1e3, noise) for _ in range(100))


def test_numbers_of_candidates_that_do_not_fit_are_refused():
    sampling.check_count(2**22)
    with pytest.raises(InputError, match="There are 4194305 candidates"):
        sampling.check_count(2**22 + 1)
