r"""The close of a period: exact dues become whole minor units, and the books balance at every step.

With :math:`N_k` the accrued billionths of work :math:`k` (:class:`~.accrual.Accruals`), pool share :math:`\pi` and
provider shares :math:`\omega_{ki}` of the works,

.. math:: \mathrm{due}_i = \frac{\pi}{10^9} \sum_k \omega_{ki} N_k ,

a fraction with a denominator that never grows beyond :math:`10^9` times those of :math:`\pi` and :math:`\omega`.
``carry`` books :math:`\lfloor \mathrm{carry}_i + \mathrm{due}_i \rfloor` and keeps the rest, so that what was booked
since the beginning is never off by a minor unit; ``largest_remainder`` exhausts the period's whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from workingpapers.governance.data_royalties.accrual import NOT_PAYABLE, Accruals
from workingpapers.governance.data_royalties.journal import (
    DEVELOPER,
    RESERVE,
    SUSPENSE,
    USAGE,
    Posting,
    escrow_account,
    provider_account,
)
from workingpapers.governance.data_royalties.money import PARTS, UNATTRIBUTED, carry, largest_remainder
from workingpapers.governance.data_royalties.registry import Policy, Work

POOL = {"carry": "pool", "largest_remainder": "pool:exhausted"}
"""Names under which the fraction of the pool as a whole is carried, one for each rounding so that a change of policy
leaves the suspense account within its bounds."""


@dataclass(frozen=True)
class Line:
    """One work on a provider's statement.

    Args:
        work: Work id.
        billionths: Accrued base of the work in billionths of a minor unit, before pool share and work share.
        share: The provider's share of the work.
        due: ``billionths / 10**9 * pool_share * share`` in minor units.
    """

    work: str
    billionths: int
    share: Fraction
    due: Fraction


@dataclass(frozen=True)
class Close:
    """What the close of one period in one currency books.

    Args:
        postings: The balanced transaction.
        dues: Account -> exact due of this period, in minor units.
        booked: Account -> whole minor units.
        carries: Account (and :data:`POOL`) -> fraction carried to the next period, in [0, 1).
        lines: Provider id -> lines of its statement.
        base: What was divided, in minor units.
    """

    postings: tuple[Posting, ...]
    dues: Mapping[str, Fraction]
    booked: Mapping[str, int]
    carries: Mapping[str, Fraction]
    lines: Mapping[str, tuple[Line, ...]]
    base: int
    data: Mapping[str, Any] = field(default_factory=dict)


def exact_dues(
    accruals: Accruals, policy: Policy, works: Mapping[str, Work]
) -> tuple[dict[str, Fraction], dict[str, list[Line]]]:
    """Return account -> exact due of the pool, and the statement lines of each provider.

    Parts of unknown or unattributed works go where the policy sends them; what it gives to the developer is in neither.
    """
    dues: dict[str, Fraction] = {}
    lines: dict[str, list[Line]] = {}
    for key, billionths in sorted(accruals.parts.items()):
        amount = policy.pool_share * Fraction(billionths, PARTS)
        work = works.get(key)
        if work is not None:
            for provider, share in work.shares:
                account = provider_account(provider)
                dues[account] = dues.get(account, Fraction(0)) + amount * share
                lines.setdefault(provider, []).append(Line(key, billionths, share, amount * share))
        elif (policy.unattributed if key == UNATTRIBUTED else policy.unknown) != "developer":
            account = escrow_account("unattributed" if key == UNATTRIBUTED else key.removeprefix(NOT_PAYABLE))
            dues[account] = dues.get(account, Fraction(0)) + amount
    return dues, lines


def close(accruals: Accruals, carries: Mapping[str, Fraction], policy: Policy, works: Mapping[str, Work]) -> Close:
    """Compute the close of one period in one currency.

    The integer pool is the floor of the exact pool since the beginning, less what went out before, so that
    ``liability:rounding_suspense`` holds the floor of the sum of all carried fractions: from 0 to the number of
    accounts less one. The developer's amount is what is left, whole by construction.

    Args:
        accruals: Exact sums of the period.
        carries: Fractions of earlier periods by account.
        policy: Shares and rounding.
        works: The registry.
    """
    dues, lines = exact_dues(accruals, policy, works)
    after = dict(carries)
    pool_name = POOL[policy.rounding]
    pool, after[pool_name] = carry(after.get(pool_name, Fraction(0)) + sum(dues.values(), Fraction(0)))
    reserve, after[RESERVE] = carry(after.get(RESERVE, Fraction(0)) + policy.reserve_share * accruals.base)
    booked: dict[str, int] = {}
    if policy.rounding == "largest_remainder":
        booked = largest_remainder(pool, dues)
    else:
        for account, due in dues.items():
            booked[account], after[account] = carry(after.get(account, Fraction(0)) + due)
    developer = accruals.base - pool - reserve
    postings = [(USAGE, accruals.base), *((account, -amount) for account, amount in sorted(booked.items()))]
    postings += [(RESERVE, -reserve), (SUSPENSE, sum(booked.values()) - pool), (DEVELOPER, -developer)]
    after = {account: fraction for account, fraction in sorted(after.items()) if fraction}
    return Close(
        postings=tuple(postings),
        dues=dues,
        booked=booked,
        carries=after,
        lines={provider: tuple(found) for provider, found in lines.items()},
        base=accruals.base,
        data={
            "base": str(accruals.base),
            "events": accruals.count,
            "dues": {account: str(due) for account, due in sorted(dues.items())},
            "carries": {account: str(fraction) for account, fraction in after.items()},
        },
    )
