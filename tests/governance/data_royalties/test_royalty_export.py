"""The exported journal is accepted by the accountants' own tools, with our balances."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from fractions import Fraction as F

import pytest

from workingpapers.governance.data_royalties.accrual import Event
from workingpapers.governance.data_royalties.export import beancount_account, beancount_lines, hledger_lines
from workingpapers.governance.data_royalties.money import decimal_text
from workingpapers.governance.data_royalties.payout import pay
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work


@pytest.fixture
def books(make_ledger, key):
    providers = [Provider("p1", "One"), Provider("P1", "Other one"), Provider("p_1/x:y", "Third", withholding=F(1, 7))]
    works = [Work(f"w{index}", ((provider.id, F(1)),)) for index, provider in enumerate(providers)]
    ledger = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)), providers, works)
    for currency in ("EUR", "JPY", "BHD"):
        event = Event(f"e{currency}", "2026-05-10T00:00:00Z", currency, 12345, 345)
        ledger.record(event, {"w0": 1.0, "w1": 2.0, "w2": 4.0, "lost": 1.0})
    ledger.close_period("2026-05", key)
    pay(ledger, date(2026, 6, 20))
    return ledger


def test_beancount_accepts_the_export_and_has_our_balances(books):
    beancount = pytest.importorskip("beancount")
    from beancount import loader
    from beancount.core import data, realization

    assert beancount
    entries, errors, _ = loader.load_string("\n".join(beancount_lines(books.store.entries())))
    assert errors == []
    assert sum(isinstance(entry, data.Transaction) for entry in entries) == 3 + 3 + 9
    real = realization.realize(entries)
    for (account, currency), amount in books.balances().items():
        found = realization.get(real, beancount_account(account)).balance.get_currency_units(currency)
        assert str(found.number) == decimal_text(amount, currency)


def test_beancount_notices_a_changed_amount(books):
    pytest.importorskip("beancount")
    from beancount import loader

    text = "\n".join(beancount_lines(books.store.entries()))
    _, errors, _ = loader.load_string(re.sub(r"Assets:Receivable  123.45 EUR", "Assets:Receivable  123.46 EUR", text))
    assert errors


def test_account_names_of_different_ids_differ():
    names = ["liability:provider:" + name for name in ("p1", "P1", "p_1", "p-1", "p/1")]
    assert len({beancount_account(name) for name in names}) == 5
    assert beancount_account("liability:rounding_suspense") == "Liabilities:Rounding-Suspense"


@pytest.mark.skipif(shutil.which("hledger") is None, reason="hledger is not installed")
def test_hledger_accepts_the_export_and_has_our_balances(books, tmp_path):
    path = tmp_path / "books.journal"
    path.write_text("\n".join(hledger_lines(books.store.entries())) + "\n")
    subprocess.run(["hledger", "-f", str(path), "check", "--strict", "ordereddates"], capture_output=True, check=False)
    subprocess.run(["hledger", "-f", str(path), "check", "ordereddates"], check=True)
    command = ["hledger", "-f", str(path), "balance", "--flat", "-O", "csv", "--layout=bare"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert '"assets:receivable","EUR","123.45"' in lines
    assert '"assets:receivable","BHD","12.345"' in lines
    assert '"assets:receivable","JPY","12345"' in lines
    owed = -books.balances()["liability:escrow:lost", "EUR"]
    assert f'"liabilities:escrow:lost","EUR","{decimal_text(-owed, "EUR")}"' in lines


def test_hledger_lines_of_a_small_journal(make_ledger):
    ledger = make_ledger(clock=lambda: "2026-05-31T00:00:00Z")
    ledger.record(Event("e", "2026-05-10T00:00:00Z", "EUR", 119, 19), {"wa": 1.0})
    lines = list(hledger_lines(ledger.store.entries()))
    start = next(index for index, line in enumerate(lines) if line.startswith("2026-05-31 * (3) usage 2026-05"))
    assert lines[start + 1 : start + 5] == [
        "    assets:receivable  1.19 EUR",
        "    liabilities:tax  -0.19 EUR",
        "    income:usage  -1.00 EUR",
        "",
    ]
