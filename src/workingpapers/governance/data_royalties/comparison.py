"""Two methods side by side: how differently the same events would be paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.money import PARTS
from workingpapers.governance.data_royalties.staging import staged


@dataclass(frozen=True)
class Comparison:
    """Money by provider under two sets of scores.

    Args:
        currency: ISO 4217 code.
        first: Provider id -> share of the pool under the first scores.
        second: The same under the second.
    """

    currency: str
    first: Mapping[str, float]
    second: Mapping[str, float]

    @property
    def moved(self) -> float:
        """Share of the pool that changes hands: half the sum of absolute differences."""
        return sum(abs(self.first[name] - self.second[name]) for name in self.first) / 2

    @property
    def rank_correlation(self) -> float:
        """Spearman's rank correlation of the two; NaN for fewer than three providers."""
        from scipy.stats import spearmanr

        if len(self.first) < 3 or len(set(self.first.values())) < 2 or len(set(self.second.values())) < 2:
            return float("nan")
        return float(spearmanr(list(self.first.values()), [self.second[name] for name in self.first])[0])


def compare_scores(ledger: Ledger, events: Path, first: Path, second: Path) -> list[Comparison]:
    """Return, for each currency, what the two files of scores would pay for the same events; nothing is booked.

    Raises:
        InputError: A line of the files cannot be.
    """
    shares = [_money(ledger, events, scores) for scores in (first, second)]
    found = []
    for currency in sorted(shares[0]):
        names = sorted({*shares[0][currency], *shares[1][currency]})
        both = [{name: one[currency].get(name, 0.0) for name in names} for one in shares]
        found.append(Comparison(currency, *both))
    return found


def _money(ledger: Ledger, events: Path, scores: Path) -> dict[str, dict[str, float]]:
    works = ledger.state.works
    found: dict[str, dict[str, float]] = {}
    totals: dict[str, int] = {}
    with staged(ledger, events, scores) as stage:
        for _, batch in stage.batches(ledger, 50_000):
            sums = batch.aggregate(set())
            money = found.setdefault(batch.currency, {})
            totals[batch.currency] = totals.get(batch.currency, 0) + sums.base * PARTS
            for key, billionths in sums.parts.items():
                work = works.get(key)
                for name, share in work.shares if work else (("(escrow)", 1),):
                    money[name] = money.get(name, 0.0) + float(billionths * share)
    return {
        currency: {name: value / totals[currency] for name, value in money.items()}
        for currency, money in found.items()
        if totals[currency]
    }
