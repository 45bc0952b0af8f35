"""A small set of books with a fixed clock."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import pytest

from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.proofs import load_or_make_key
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work

THIRD = Fraction(1, 3)


def ticking_clock():
    ticks = count()
    return lambda: f"2026-06-01T{next(ticks) // 3600 % 24:02d}:00:00Z"


@pytest.fixture
def key(tmp_path):
    return load_or_make_key(tmp_path / "key.pem")


@pytest.fixture
def make_ledger(tmp_path, key):
    """Return a function that opens books; everything of the pool is dealt unless said."""
    opened = []

    def make(policy=None, providers=None, works=None, name="books.db", clock=None):
        providers = providers or [Provider(one, one.upper(), f"account-{one}") for one in ("a", "b", "c")]
        works = works or [
            Work("wa", (("a", Fraction(1)),)),
            Work("wb", (("b", Fraction(1)),)),
            Work("wc", (("c", Fraction(1)),)),
            Work("wbc", (("b", THIRD), ("c", 2 * THIRD))),
        ]
        policy = policy or Policy(Fraction(0), Fraction(1))
        url = name if "://" in name else str(tmp_path / name)
        opened.append(Ledger.create(url, providers, works, policy, key, clock or ticking_clock()))
        return opened[-1]

    yield make
    for ledger in opened:
        ledger.close()
