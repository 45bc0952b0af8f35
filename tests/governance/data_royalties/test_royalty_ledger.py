"""The books: exact in every run, balanced at every prefix, idempotent, corrected by new entries only."""

from __future__ import annotations

import random
from datetime import date
from fractions import Fraction as F
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties import journal
from workingpapers.governance.data_royalties.accrual import Accruals, Event
from workingpapers.governance.data_royalties.closing import close
from workingpapers.governance.data_royalties.journal import Draft, escrow_account, imbalance, provider_account
from workingpapers.governance.data_royalties.money import PARTS
from workingpapers.governance.data_royalties.payout import batch_csv, batch_xml, decide, give_back, pay, settle
from workingpapers.governance.data_royalties.registry import Policy, Provider, Work
from workingpapers.governance.data_royalties.state import following
from workingpapers.governance.data_royalties.verify import audit_store


def event(name, gross=100, day="2026-05-10", currency="EUR", **more):
    return Event(name, f"{day}T12:00:00Z", currency, gross, **more)


def owed(ledger, provider, currency="EUR"):
    return -ledger.balances().get((provider_account(provider), currency), 0)


def trial_balance(ledger):
    sums = {}
    for (_, currency), amount in ledger.balances().items():
        sums[currency] = sums.get(currency, 0) + amount
    return sums


def test_three_periods_of_a_hundred_thirds_book_exactly_a_hundred_each(make_ledger, key):
    ledger = make_ledger()
    booked = []
    for month in ("2026-05", "2026-06", "2026-07"):
        # 300 events of 1 cent: thirds of a cent each, and 333,333,334 parts go round as ties break by id.
        ledger.record(event(f"e{month}", 300, f"{month}-10"), {"wa": 1.0, "wb": 1.0, "wc": 1.0})
        ledger.close_period(month, key)
        booked.append([owed(ledger, one) for one in "abc"])
    # One event's parts are whole billionths: 333,333,334 + 2 x 333,333,333; a is ahead by 3e-7 cents a month.
    assert booked == [[100, 99, 99], [200, 199, 199], [300, 299, 299]]
    assert -ledger.balances()[journal.SUSPENSE, "EUR"] == 2


def test_three_periods_over_exact_thirds_book_exactly_a_hundred_each(make_ledger, key):
    # A co-owned work: thirds by share of the work, which are exact fractions all the way.
    works = [Work("w", (("a", F(1, 3)), ("b", F(1, 3)), ("c", F(1, 3))))]
    ledger = make_ledger(works=works)
    for month in ("2026-05", "2026-06", "2026-07"):
        ledger.record(event(f"e{month}", 100, f"{month}-10"), {"w": 1.0})
        ledger.close_period(month, key)
    assert [owed(ledger, one) for one in "abc"] == [100, 100, 100]
    assert (journal.SUSPENSE, "EUR") not in ledger.balances()


def test_largest_remainder_exhausts_the_pool_of_every_period(make_ledger, key):
    works = [Work("w", (("a", F(1, 3)), ("b", F(1, 3)), ("c", F(1, 3))))]
    ledger = make_ledger(Policy(F(0), F(1), rounding="largest_remainder"), works=works)
    ledger.record(event("e", 100), {"w": 1.0})
    ledger.close_period("2026-05", key)
    assert [owed(ledger, one) for one in "abc"] == [34, 33, 33]
    assert (journal.SUSPENSE, "EUR") not in ledger.balances()


def test_the_shares_of_developer_pool_and_reserve(make_ledger, key):
    ledger = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)))
    ledger.record(event("e", 1190, tax=190, cost=100), {"wa": 3.0, "wbc": 1.0})
    ledger.close_period("2026-05", key)
    # Base 900: pool 360, of which a 3/4 = 270, b 1/3 and c 2/3 of 90; reserve 90; developer 450; 100 cost stays income.
    assert ledger.balances() == {
        (journal.RECEIVABLE, "EUR"): 1190,
        (journal.TAX, "EUR"): -190,
        (journal.USAGE, "EUR"): -100,
        (provider_account("a"), "EUR"): -270,
        (provider_account("b"), "EUR"): -30,
        (provider_account("c"), "EUR"): -60,
        (journal.RESERVE, "EUR"): -90,
        (journal.DEVELOPER, "EUR"): -450,
    }


events = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.sampled_from(["EUR", "JPY", "BHD"]),
        st.sampled_from(["2026-05", "2026-06", "2026-07"]),
        st.dictionaries(st.sampled_from(["wa", "wb", "wc", "wbc", "new", "-"]), st.floats(-1, 10), max_size=5),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)
policies = st.builds(
    lambda pool, reserve, rounding, unknown, unattributed: Policy(
        1 - F(pool, 24) - F(reserve, 24),
        F(pool, 24),
        F(reserve, 24),
        rounding=rounding,
        unknown=unknown,
        unattributed=unattributed,
    ),
    st.integers(0, 18),
    st.integers(0, 6),
    st.sampled_from(["carry", "largest_remainder"]),
    st.sampled_from(["escrow", "developer", "pro_rata"]),
    st.sampled_from(["escrow", "developer"]),
)


BOOKS = count()


@given(events, policies)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_run_sums_to_the_cent(make_ledger, key, drawn, policy):
    ledger = make_ledger(policy, name=f"books{next(BOOKS)}.db")
    gross = {}
    for month in ("2026-05", "2026-06", "2026-07"):
        for index, (amount, currency, when, scores, refund) in enumerate(drawn):
            if when != month:
                continue
            ledger.record(event(f"e{index}", amount, f"{month}-10", currency), scores)
            gross[currency] = gross.get(currency, 0) + amount
            if refund == 1 and amount:
                ledger.record(event(f"r{index}", -amount // 3, f"{month}-11", currency, refund_of=f"e{index}"), {})
                gross[currency] += -amount // 3
        ledger.close_period(month, key)
    # The balance of every account and currency is zero in all, and what came in is what was divided.
    assert all(total == 0 for total in trial_balance(ledger).values())
    for currency, total in gross.items():
        assert ledger.balances().get((journal.RECEIVABLE, currency), 0) == total
        assert (journal.USAGE, currency) not in ledger.balances()
        assert ledger.state.suspense_within_bounds(currency)
    # Carried fractions and booked amounts are the exact dues, to the last billionth.
    exact = exact_by_hand(drawn, policy)
    for currency, total in gross.items():
        reserve = -ledger.balances().get((journal.RESERVE, currency), 0)
        assert reserve == policy.reserve_share * total // 1
    if policy.rounding == "carry":
        for (account, currency), due in exact.items():
            booked = -ledger.balances().get((account, currency), 0)
            assert booked + ledger.state.carries[currency].get(account, 0) == due
            assert 0 <= due - booked < 1
    assert not audit_store(ledger.store).violations
    ledger.close()


def exact_by_hand(drawn, policy):
    """Dues by a loop over events with fractions: the plain way, apart from the parts of an event."""
    from workingpapers.governance.data_royalties.money import event_parts

    owners = {"wa": {"a": F(1)}, "wb": {"b": F(1)}, "wc": {"c": F(1)}, "wbc": {"b": F(1, 3), "c": F(2, 3)}}
    found = {}
    for amount, currency, _, scores, refund in drawn:
        base = amount + (-amount // 3 if refund == 1 and amount else 0)
        known = {work: score for work, score in scores.items() if policy.unknown != "pro_rata" or work != "new"}
        for work, number in event_parts(known).items():
            money = policy.pool_share * base * F(number, PARTS)
            if work in owners:
                shares = {provider_account(name): share for name, share in owners[work].items()}
            elif work == "-":
                shares = {escrow_account("unattributed"): F(1)} if policy.unattributed == "escrow" else {}
            else:
                shares = {escrow_account("new"): F(1)} if policy.unknown == "escrow" else {}
            for account, share in shares.items():
                found[account, currency] = found.get((account, currency), F(0)) + money * share
    return found


def test_every_transaction_and_every_prefix_balances(make_ledger, key):
    ledger = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)))
    ledger.record(event("e1", 101), {"wa": 1.0, "wbc": 2.0})
    ledger.record(event("e2", 7, currency="JPY"), {"wbc": 1.0, "lost": 1.0})
    ledger.record(event("r1", -50, "2026-05-11", refund_of="e1"), {})
    ledger.close_period("2026-05", key)
    ledger.adjust("a", "EUR", 3, "settled by hand")
    ledger.receive("EUR", 51, "bank statement 7")
    pay(ledger, date(2026, 7, 1))
    running = {}
    for entry in ledger.store.entries():
        draft = entry.draft()
        assert sum(amount for _, amount in draft.postings) == 0
        for account, amount in draft.postings:
            running[account, draft.currency] = running.get((account, draft.currency), 0) + amount
        assert sum(running.values()) == 0
    assert {name: amount for name, amount in running.items() if amount} == ledger.balances()


@pytest.mark.parametrize(
    ("postings", "message"),
    [
        ([("assets:cash", 1)], "at least two"),
        ([("assets:cash", 1), ("income:usage", 1)], "sum to 2"),
        ([("assets:cash", 1.5), ("income:usage", -1.5)], "whole minor units"),
        ([("cash", 1), ("income:usage", -1)], "under none of"),
    ],
)
def test_unbalanced_transactions_are_refused(make_ledger, postings, message):
    ledger = make_ledger()
    before = ledger.store.head()
    with pytest.raises(InputError, match=message):
        ledger.book(Draft("receipt", ledger.now(), "", "EUR", postings))
    assert ledger.store.head() == before


def test_a_transaction_has_one_currency_that_exists():
    postings = (("assets:cash", 1), ("assets:receivable", -1))
    for code in ("JPY", "EUR", "BHD"):
        assert imbalance(Draft("receipt", "", "", code, postings)) == ""
    assert "no currency" in imbalance(Draft("receipt", "", "", "EUR/USD", postings))
    assert "no currency" in imbalance(Draft("receipt", "", "", "", postings))


def test_a_refund_in_another_currency_is_refused(make_ledger):
    ledger = make_ledger()
    ledger.record(event("e"), {"wa": 1.0})
    with pytest.raises(InputError, match="cannot take back event 'e'"):
        ledger.record(event("r", -100, currency="USD", refund_of="e"), {})


def test_posting_twice_changes_nothing_and_returns_the_first_receipt(make_ledger):
    ledger = make_ledger()
    first = ledger.record(event("e"), {"wa": 1.0, "wb": 2.0})
    before = (ledger.store.head(), ledger.balances())
    again = ledger.record(event("e"), {"wb": 2.0, "wa": 1.0})
    assert (first.new, again.new, again.repeated) == (1, 0, 1)
    assert again.posted == first.posted
    assert (ledger.store.head(), ledger.balances()) == before


@pytest.mark.parametrize(
    "change", [{"gross": 101}, {"day": "2026-05-11"}, {"currency": "USD"}, {"model_version": "m2"}]
)
def test_the_same_id_with_other_content_is_an_error(make_ledger, change):
    ledger = make_ledger()
    ledger.record(event("e"), {"wa": 1.0})
    with pytest.raises(InputError, match="booked with other content"):
        ledger.record(event("e", **change), {"wa": 1.0})
    with pytest.raises(InputError, match="booked with other content"):
        ledger.record(event("e"), {"wb": 1.0})


def test_reversing_an_event_restores_all_balances(make_ledger, key):
    ledger = make_ledger(Policy(F(1, 2), F(1, 2)))
    ledger.record(event("keep", 1001), {"wa": 1.0, "wbc": 0.7})
    kept = make_ledger(Policy(F(1, 2), F(1, 2)), name="kept.db")
    kept.record(event("keep", 1001), {"wa": 1.0, "wbc": 0.7})
    ledger.record(event("wrong", 777, tax=77, cost=10), {"wb": 1.0, "wc": 0.1, "unknown": 2.0})
    receipt = ledger.reverse("wrong", "billed twice")
    assert receipt.new == 1
    assert dict(ledger.balances()) == dict(kept.balances())
    notes = [entry.draft().data.get("notes") for entry in ledger.store.entries()]
    assert {"method": "reversal: billed twice"} in notes
    with pytest.raises(InputError, match="refunded in full"):
        ledger.reverse("wrong", "again")
    with pytest.raises(InputError, match="no event 'nobody'"):
        ledger.reverse("nobody", "typo")


def test_reversal_and_original_cancel_to_the_last_fraction(make_ledger, key):
    clock = lambda: "2026-05-20T00:00:00Z"  # noqa: E731
    ledger = make_ledger(Policy(F(1, 2), F(1, 2)), clock=clock)
    ledger.record(event("e", 777), {"wa": 0.3, "wb": 0.4, "wbc": 0.1})
    ledger.record(event("r", -100, refund_of="e", day="2026-05-15"), {})
    ledger.reverse("e", "wrong customer")
    sums = ledger.state.accruals["2026-05", "EUR"]
    assert (sums.count, sums.gross, sums.base) == (3, 0, 0)
    assert set(sums.parts.values()) == {0}
    ledger.close_period("2026-05", key)
    assert ledger.balances() == {}


def test_a_refund_after_the_payout_leaves_a_negative_balance_and_pays_nobody(make_ledger, key):
    ledger = make_ledger()
    ledger.record(event("e", 500), {"wa": 1.0})
    ledger.close_period("2026-05", key)
    made, _ = pay(ledger, date(2026, 6, 20))
    assert [(payout.provider, payout.gross) for payout in made] == [("a", 500)]
    settle(ledger, made[0].id)
    ledger.record(event("r", -500, "2026-06-05", refund_of="e"), {})
    ledger.close_period("2026-06", key)
    assert owed(ledger, "a") == -500
    made, decisions = pay(ledger, date(2026, 7, 20))
    assert made == []
    assert "netted against future dues" in decisions[0].reason
    ledger.record(event("e2", 800, "2026-07-05"), {"wa": 1.0})
    ledger.close_period("2026-07", key)
    made, _ = pay(ledger, date(2026, 8, 20))
    assert [payout.gross for payout in made] == [300]
    assert all(payout.net >= 0 for payout in ledger.state.payouts.values())


def test_refunds_end_at_the_original(make_ledger):
    ledger = make_ledger()
    ledger.record(event("e", 100), {"wa": 1.0})
    ledger.record(event("r1", -60, refund_of="e"), {})
    with pytest.raises(InputError, match="more than is left"):
        ledger.record(event("r2", -41, refund_of="e"), {})
    ledger.record(event("r2", -40, refund_of="e"), {})
    with pytest.raises(InputError, match="not in the ledger"):
        ledger.record(event("r3", -1, refund_of="nothing"), {})
    with pytest.raises(InputError, match="itself a refund"):
        ledger.record(event("r3", -1, refund_of="r1"), {})
    with pytest.raises(InputError, match="cannot take back"):
        ledger.record(event("r3", -1, "2026-05-09", refund_of="e"), {})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"gross": -1}, "negative amount"),
        ({"tax": 60, "cost": 50}, "lie within the gross"),
        ({"day": "2026-02-30"}, "write it in UTC"),
        ({"currency": "EURO"}, "not an ISO 4217"),
        ({"name": "two words"}, "An event id"),
    ],
)
def test_events_that_contradict_themselves_are_refused(make_ledger, bad, message):
    ledger = make_ledger()
    with pytest.raises(InputError, match=message):
        ledger.record(event(**{"name": "e"} | bad), {"wa": 1.0})


def test_late_events_go_to_the_next_open_period(make_ledger, key):
    ledger = make_ledger()
    ledger.record(event("e1", 100, "2026-05-10"), {"wa": 1.0})
    ledger.close_period("2026-05", key)
    ledger.record(event("late", 40, "2026-05-11"), {"wa": 1.0})
    assert ("2026-06", "EUR") in ledger.state.accruals
    assert owed(ledger, "a") == 100
    ledger.close_period("2026-06", key)
    assert owed(ledger, "a") == 140
    assert following("2026-12") == "2027-01"


def test_periods_close_in_order_once_and_with_the_right_key(make_ledger, key, tmp_path):
    from workingpapers.governance.data_royalties.proofs import load_or_make_key

    ledger = make_ledger()
    ledger.record(event("e1", 100, "2026-05-10"), {"wa": 1.0})
    with pytest.raises(InputError, match="2026-05 has events and is open"):
        ledger.close_period("2026-06", key)
    with pytest.raises(InputError, match="not the one that this ledger was opened with"):
        ledger.close_period("2026-05", load_or_make_key(tmp_path / "other.pem"))
    with pytest.raises(InputError, match="write it as YYYY-MM"):
        ledger.close_period("2026-13", key)
    ledger.close_period("2026-05", key)
    with pytest.raises(InputError, match="2026-05 is sealed"):
        ledger.close_period("2026-05", key)


def test_works_are_paid_within_their_licence_only(make_ledger, key):
    works = [
        Work("dated", (("a", F(1)),), valid_from="2026-05-10", valid_to="2026-05-20"),
        Work("withdrawn", (("b", F(1)),), models=("m1",)),
    ]
    ledger = make_ledger(works=works)
    for day in ("09", "10", "20", "21"):
        ledger.record(event(f"d{day}", 100, f"2026-05-{day}"), {"dated": 1.0})
    for model in ("m1", "m2", ""):
        ledger.record(event(f"m{model}", 10, model_version=model), {"withdrawn": 1.0})
    ledger.close_period("2026-05", key)
    assert (owed(ledger, "a"), owed(ledger, "b")) == (200, 10)
    assert -ledger.balances()[escrow_account("dated"), "EUR"] == 200
    assert -ledger.balances()[escrow_account("withdrawn"), "EUR"] == 20


def test_what_nobody_can_claim_goes_where_the_policy_says(make_ledger, key):
    scores = {"wa": 1.0, "lost": 2.0, "-": 1.0}
    expected = {
        ("escrow", "escrow"): (100, 200, 100, 0),
        ("developer", "escrow"): (100, 0, 100, 200),
        ("pro_rata", "developer"): (200, 0, 0, 200),
    }
    for number, ((unknown, unattributed), amounts) in enumerate(expected.items()):
        ledger = make_ledger(Policy(F(0), F(1), unknown=unknown, unattributed=unattributed), name=f"{number}.db")
        ledger.record(event("e", 400), scores)
        ledger.close_period("2026-05", key)
        found = [
            -ledger.balances().get((account, "EUR"), 0)
            for account in (
                provider_account("a"),
                escrow_account("lost"),
                escrow_account("unattributed"),
                journal.DEVELOPER,
            )
        ]
        assert tuple(found) == amounts


def test_escrow_is_released_to_whoever_proves_ownership(make_ledger, key):
    ledger = make_ledger()
    ledger.record(event("e", 400), {"lost": 1.0})
    ledger.close_period("2026-05", key)
    source = escrow_account("lost")
    with pytest.raises(InputError, match=r"holds 4\.00 EUR; 4\.01 cannot be taken"):
        ledger.adjust("a", "EUR", 401, "proof shown", source)
    ledger.adjust("a", "EUR", 400, "proof shown", source)
    assert owed(ledger, "a") == 400
    # The same event posted again is the same event, though its work is known by now.
    ledger.register(works=[Work("lost", (("a", F(1)),))])
    assert ledger.record(event("e", 400), {"lost": 1.0}).repeated == 1


def test_disputes_and_adjustments_are_entries_that_name_what_they_correct(make_ledger, key):
    ledger = make_ledger(Policy(F(1, 2), F(2, 5), F(1, 10)))
    ledger.record(event("e", 1000), {"wa": 1.0})
    closes = ledger.close_period("2026-05", key)
    noted = ledger.dispute("b", "2026-05", "my work was used too")
    done = ledger.adjust("b", "EUR", 50, "recomputed with exact Shapley values", refers_to=noted.seq)
    assert done.draft().data["refers_to"] == str(noted.seq)
    assert (owed(ledger, "a"), owed(ledger, "b")) == (400, 50)
    assert -ledger.balances()[journal.RESERVE, "EUR"] == 50
    assert ledger.store.entry(closes[0].seq) == closes[0]
    with pytest.raises(InputError, match=r"reserve holds 0\.50 EUR; 0\.51 cannot be taken"):
        ledger.adjust("b", "EUR", 51, "too much")
    with pytest.raises(InputError, match="not sealed"):
        ledger.dispute("b", "2026-06", "too early")
    with pytest.raises(InputError, match="no provider 'bb'; did you mean 'b'"):
        ledger.adjust("bb", "EUR", 1, "typo")
    with pytest.raises(InputError, match="no entry 99"):
        ledger.adjust("b", "EUR", 1, "typo", refers_to=99)


def test_thresholds_windows_holds_and_withholding(make_ledger, key):
    providers = [
        Provider("a", "A", withholding=F(15, 100)),
        Provider("b", "B", status="hold"),
        Provider("c", "C"),
    ]
    policy = Policy(F(0), F(1), payout_threshold_minor=100, dispute_window_days=10)
    ledger = make_ledger(policy, providers)
    ledger.record(event("e", 1000), {"wa": 0.333, "wb": 0.6, "wc": 0.067})
    ledger.close_period("2026-05", key)
    # Dues 333, 600, 67; the window ends on 10 June.
    assert {item.reason for item in decide(ledger.state, date(2026, 6, 10)) if item.provider == "a"} == {
        "dispute window is open"
    }
    made, decisions = pay(ledger, date(2026, 6, 11))
    assert [(payout.provider, payout.gross, payout.withheld, payout.net) for payout in made] == [("a", 333, 49, 284)]
    assert {item.provider: item.reason for item in decisions} == {
        "a": "",
        "b": "provider is on hold",
        "c": "below the threshold of 1.00",
    }
    assert ledger.balances()[journal.IN_TRANSIT, "EUR"] == -284
    assert pay(ledger, date(2026, 6, 11))[0] == []


def test_a_returned_transfer_is_owed_and_paid_again(make_ledger, key):
    ledger = make_ledger(providers=[Provider(one, one, f"X{one}", withholding=F(1, 10)) for one in "abc"])
    ledger.record(event("e", 1000), {"wa": 1.0})
    ledger.close_period("2026-05", key)
    (payout,), _ = pay(ledger, date(2026, 6, 20))
    give_back(ledger, payout.id, "account closed")
    assert owed(ledger, "a") == 1000
    assert (journal.TAX, "EUR") not in ledger.balances()
    (again,), _ = pay(ledger, date(2026, 6, 20))
    assert again.id == payout.id + "#2"
    settle(ledger, again.id)
    assert ledger.balances()[journal.CASH, "EUR"] == -900
    with pytest.raises(InputError, match="under way"):
        settle(ledger, again.id)


def test_payout_files_hold_the_net_amounts(make_ledger, key):
    from xml.etree import ElementTree

    providers = [
        Provider("a", "Ann & Co", "DE89 3704 0044 0532 0130 00"),
        Provider("b", "B", "12-34"),
        Provider("c", "C"),
    ]
    ledger = make_ledger(providers=providers)
    ledger.record(event("e", 1000), {"wa": 3.0, "wb": 1.0})
    ledger.record(event("j", 10, currency="JPY"), {"wa": 1.0})
    ledger.close_period("2026-05", key)
    made, _ = pay(ledger, date(2026, 6, 20))
    text = batch_csv(made, ledger.state)
    assert text.splitlines()[1] == "2026-06-20/EUR/a,a,Ann & Co,DE89 3704 0044 0532 0130 00,EUR,7.50,0.00,7.50"
    root = ElementTree.fromstring(
        batch_xml(made, ledger.state, debtor="Dev", account="Z1", day=date(2026, 6, 20), created="2026-06-20T00:00:00Z")
    )
    name = {"": "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"}
    transfers = root.findall(".//CdtTrfTxInf", name)
    amounts = [
        (item.find("Amt/InstdAmt", name).get("Ccy"), item.findtext("Amt/InstdAmt", "", name)) for item in transfers
    ]
    assert amounts == [("EUR", "7.50"), ("EUR", "2.50"), ("JPY", "10")]
    assert root.findtext(".//GrpHdr/NbOfTxs", "", name) == "3"
    assert [item.findtext("CtrlSum", "", name) for item in root.findall(".//PmtInf", name)] == ["10.00", "10"]
    assert root.findtext(".//CdtrAcct/Id/IBAN", "", name) == "DE89370400440532013000"
    assert len({item.findtext("PmtId/EndToEndId", "", name) for item in transfers}) == 3


def test_rounding_stays_within_its_account_over_changes_of_policy():
    """Random closes, roundings mixed: the suspense account is the floor of the carried fractions at every step."""
    rng = random.Random(0)
    works = {f"w{i}": Work(f"w{i}", ((f"p{i}", F(1, 3)), ("q", F(2, 3)))) for i in range(5)}
    carries, suspense, booked, exact = {}, 0, {}, {}
    for step in range(200):
        rounding = "largest_remainder" if step % 7 == 3 else "carry"
        sums = Accruals(1, 0, 0, 0, {})
        for work in works:
            if rng.random() < 0.7:
                base = rng.randrange(-50, 400)
                sums.base += base
                sums.parts[work] = sums.parts.get(work, 0) + base * PARTS
        found = close(sums, carries, Policy(F(2, 7), F(4, 7), F(1, 7), rounding=rounding), works)
        carries = dict(found.carries)
        assert sum(amount for _, amount in found.postings) == 0
        suspense -= dict(found.postings)[journal.SUSPENSE]
        dealt = [name for name in carries if name.startswith("liability:provider")]
        assert 0 <= suspense < max(1, len(dealt))
        if rounding == "largest_remainder":
            assert all(abs(found.booked[name] - due) < 1 for name, due in found.dues.items())
        else:
            for name, due in found.dues.items():
                exact[name] = exact.get(name, F(0)) + due
                booked[name] = booked.get(name, 0) + found.booked[name]
                assert 0 <= exact[name] - booked[name] < 1


def test_books_are_never_written_over(make_ledger, key, tmp_path):
    make_ledger()
    with pytest.raises(InputError, match="already; name a new one"):
        make_ledger()
    with pytest.raises(InputError, match="belongs to provider 'd', which is not registered"):
        make_ledger(works=[Work("w", (("d", F(1)),))], name="new.db")
    assert not (tmp_path / "new.db").exists()


def test_policies_and_works_that_do_not_add_up_are_refused():
    with pytest.raises(InputError, match="sum to 11/10"):
        Policy(F(1, 2), F(6, 10))
    with pytest.raises(InputError, match="The shares of work 'w' sum to 5/6"):
        Work("w", (("a", F(1, 2)), ("b", F(1, 3))))
    with pytest.raises(InputError, match="rounding"):
        Policy(F(1, 2), F(1, 2), rounding="half_up")


def test_two_handles_see_each_other(make_ledger, tmp_path, key):
    from workingpapers.governance.data_royalties.ledger import Ledger

    first = make_ledger()
    second = Ledger.open(str(tmp_path / "books.db"), lambda: "2026-06-01T00:00:00Z")
    for index in range(6):
        (first, second)[index % 2].record(event(f"e{index}", 100), {"wa": 1.0})
    second.close_period("2026-05", key)
    assert owed(first, "a") == 600
    assert not audit_store(first.store).violations
    second.close()


def test_a_failure_within_a_block_leaves_the_rest_of_it(make_ledger):
    ledger = make_ledger()
    with ledger.writing():
        ledger.record(event("e1"), {"wa": 1.0})
        with pytest.raises(InputError, match="more than is left"):
            ledger.record(event("r1", -101, refund_of="e1"), {})
        with pytest.raises(InputError, match="does not balance"):
            ledger.book(Draft("receipt", ledger.now(), "", "EUR", (("assets:cash", 2), ("income:usage", -1))))
        with pytest.raises(InputError, match="not under way"):
            ledger.book(
                Draft("settled", ledger.now(), "", "EUR", (("assets:cash", 1), ("income:usage", -1)), {"payout": "x"})
            )
        ledger.record(event("e2"), {"wa": 1.0})
    found = audit_store(ledger.store)
    assert (found.violations, found.events) == ([], 2)
    assert [entry.draft().kind for entry in ledger.store.entries()][3:] == ["usage", "usage"]

    def fail():
        with ledger.writing():
            ledger.record(event("e3"), {"wa": 1.0})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert ledger.store.find(["e3"]) == {}
    assert owed(ledger, "a") == 0
    assert ledger.state.accruals["2026-05", "EUR"].count == 2
