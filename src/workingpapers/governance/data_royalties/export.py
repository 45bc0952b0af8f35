"""The journal as plain text for accountants' own tools: beancount and hledger check the sums once more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from hashlib import sha256

from workingpapers.governance.data_royalties.journal import Draft, Entry
from workingpapers.governance.data_royalties.money import decimal_text

BEANCOUNT_ROOTS = {"assets": "Assets", "liability": "Liabilities", "income": "Income", "equity": "Equity"}
HLEDGER_ROOTS = {"assets": "assets", "liability": "liabilities", "income": "income", "equity": "equity"}


def hledger_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Give the lines of an hledger journal: a transaction for every entry that moves money, its hash as a tag."""
    yield "; Account names are letters, digits and dashes; a name that had others ends in a digest of the original."
    for root, kind in (("assets", "A"), ("liabilities", "L"), ("income", "R"), ("equity", "E")):
        yield f"account {root}  ; type:{kind}"
    yield ""
    for entry, draft in _money(entries):
        yield f"{draft.time[:10]} * ({entry.seq}) {draft.kind}{_about(draft)}  ; hash:{entry.hash}"
        for account, amount in draft.postings:
            yield f"    {_hledger_account(account)}  {decimal_text(amount, draft.currency)} {draft.currency}"
        yield ""


def beancount_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Give the lines of a beancount file: accounts opened where first used, every balance asserted at the end."""
    opened: dict[str, str] = {}
    balances: dict[tuple[str, str], int] = {}
    day = ""
    yield 'option "title" "Data royalties"'
    yield ""
    for entry, draft in _money(entries):
        day = draft.time[:10]
        for account, amount in draft.postings:
            name = beancount_account(account)
            if name not in opened:
                opened[name] = day
                yield f"{day} open {name}"
            balances[name, draft.currency] = balances.get((name, draft.currency), 0) + amount
        yield f'{day} * "{draft.kind}{_about(draft)}"'
        yield f'  seq: "{entry.seq}"'
        yield f'  hash: "{entry.hash}"'
        for account, amount in draft.postings:
            yield f"  {beancount_account(account)}  {decimal_text(amount, draft.currency)} {draft.currency}"
        yield ""
    if day:
        # beancount asserts balances as of the beginning of a day.
        after = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
        for (name, currency), amount in sorted(balances.items()):
            yield f"{after} balance {name}  {decimal_text(amount, currency)} {currency}"


def beancount_account(account: str) -> str:
    """Return the beancount name of `account`: ``liability:provider:p1`` becomes ``Liabilities:Provider:P-p1``."""
    root, name, *rest = account.split(":", 2)
    # A component starts with a capital or a digit; a prefix keeps the names of "p1" and "P1" apart.
    ids = [f"{name[0].upper()}-{_plain(part)}" for part in rest]
    return ":".join([BEANCOUNT_ROOTS[root], "-".join(word.capitalize() for word in name.split("_")), *ids])


def _hledger_account(account: str) -> str:
    root, name, *rest = account.split(":", 2)
    return ":".join([HLEDGER_ROOTS[root], name, *map(_plain, rest)])


def _plain(part: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9-]", "-", part)
    return plain if plain == part else f"{plain}-{sha256(part.encode()).hexdigest()[:8]}"


def _about(draft: Draft) -> str:
    return f" {draft.period}" if draft.period else ""


def _money(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Draft]]:
    for entry in entries:
        draft = entry.draft()
        if draft.postings:
            yield entry, draft
