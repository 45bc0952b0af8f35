"""Payouts: what is due and old enough, above the threshold, never negative; as entries, CSV and ISO 20022 pain.001."""

from __future__ import annotations

import calendar
import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import sha256
from xml.etree import ElementTree

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.journal import CASH, IN_TRANSIT, TAX, Draft, provider_account
from workingpapers.governance.data_royalties.ledger import Ledger
from workingpapers.governance.data_royalties.money import decimal_text
from workingpapers.governance.data_royalties.state import Payout, State

PAIN = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"


@dataclass(frozen=True)
class Decision:
    """What happens to one provider's balance in one currency.

    Args:
        provider: Provider id.
        currency: ISO 4217 code.
        balance: What the books owe, minor units.
        eligible: What of it is past the dispute window.
        reason: Why nothing is paid, or ``""``.
    """

    provider: str
    currency: str
    balance: int
    eligible: int
    reason: str = ""


def last_day(period: str) -> date:
    """Return the last day of a month ``YYYY-MM``."""
    year, month = int(period[:4]), int(period[5:])
    return date(year, month, calendar.monthrange(year, month)[1])


def decide(state: State, day: date) -> list[Decision]:
    """Return for every provider and currency with a balance what can be paid on `day`, and why not.

    Money of a period can be paid once `day` is more than the dispute window after the period's end. A negative balance
    (refunds after a payout) waits for future dues; it is never collected.
    """
    policy = state.policy
    assert policy is not None, "a ledger opens with a policy"
    found = []
    for provider, record in sorted(state.providers.items()):
        for currency in sorted({currency for _, currency in state.balances}):
            balance = -state.balances.get((provider_account(provider), currency), 0)
            if not balance:
                continue
            window = timedelta(days=policy.dispute_window_days)
            young = sum(
                amount
                for period, amount in state.booked.get((provider, currency), {}).items()
                if day <= last_day(period) + window
            )
            eligible = balance - max(0, young)
            under_way = any(
                payout.provider == provider and payout.currency == currency and payout.status == "created"
                for payout in state.payouts.values()
            )
            reason = ""
            if balance < 0:
                reason = "balance is negative: netted against future dues"
            elif record.status == "hold":
                reason = "provider is on hold"
            elif under_way:
                reason = "a payout is under way"
            elif eligible <= 0:
                reason = "dispute window is open"
            elif eligible < policy.payout_threshold_minor:
                reason = f"below the threshold of {decimal_text(policy.payout_threshold_minor, currency)}"
            found.append(Decision(provider, currency, balance, eligible, reason))
    return found


def pay(ledger: Ledger, day: date) -> tuple[list[Payout], list[Decision]]:
    """Book a payout for every provider that can be paid on `day`; running it again the same day books nothing more.

    The withheld tax is the floor of gross x withholding. The id of a payout is its idempotency key towards the bank.

    Returns:
        The new payouts, and the decisions for everybody.
    """
    made = []
    with ledger.writing() as state:
        decisions = decide(state, day)
        for decision in decisions:
            if decision.reason:
                continue
            provider = state.providers[decision.provider]
            withheld = math.floor(decision.eligible * provider.withholding)
            stem = f"{day.isoformat()}/{decision.currency}/{provider.id}"
            repeats = sum(name.split("#")[0] == stem for name in state.payouts)
            payout = Payout(
                f"{stem}#{repeats + 1}" if repeats else stem,
                provider.id,
                decision.currency,
                decision.eligible,
                withheld,
            )
            postings = (
                (provider_account(provider.id), payout.gross),
                (TAX, -payout.withheld),
                (IN_TRANSIT, -payout.net),
            )
            data = {
                "payout": payout.id,
                "provider": provider.id,
                "gross": str(payout.gross),
                "withheld": str(payout.withheld),
            }
            ledger.book(Draft("payout", ledger.now(), "", payout.currency, postings, data))
            made.append(payout)
    return made, decisions


def settle(ledger: Ledger, payout_id: str) -> None:
    """Book that the bank carried out a payout.

    Raises:
        InputError: There is no such payout under way.
    """
    payout = _under_way(ledger.state, payout_id)
    postings = ((IN_TRANSIT, payout.net), (CASH, -payout.net))
    ledger.book(Draft("settled", ledger.now(), "", payout.currency, postings, {"payout": payout.id}))


def give_back(ledger: Ledger, payout_id: str, reason: str) -> None:
    """Book that a transfer came back: the provider is owed the whole amount again, the withheld tax included.

    Raises:
        InputError: There is no such payout under way.
    """
    payout = _under_way(ledger.state, payout_id)
    postings = ((IN_TRANSIT, payout.net), (TAX, payout.withheld), (provider_account(payout.provider), -payout.gross))
    data = {"payout": payout.id, "reason": reason}
    ledger.book(Draft("returned", ledger.now(), "", payout.currency, postings, data))


def batch_csv(payouts: Sequence[Payout], state: State) -> str:
    """Return the payout batch as CSV, amounts in major units."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["payout", "provider", "name", "account", "currency", "gross", "withheld", "net"])
    for item in payouts:
        provider = state.providers[item.provider]
        amounts = [decimal_text(amount, item.currency) for amount in (item.gross, item.withheld, item.net)]
        writer.writerow([item.id, provider.id, provider.name, provider.payout_account, item.currency, *amounts])
    return stream.getvalue()


def batch_xml(payouts: Sequence[Payout], state: State, *, debtor: str, account: str, day: date, created: str) -> str:
    """Return the payout batch as an ISO 20022 credit transfer initiation (pain.001.001.09), one block a currency.

    Args:
        payouts: What to transfer.
        state: The books, for names and accounts.
        debtor: Name of the payer.
        account: Account that is debited, IBAN or other.
        day: Requested execution date.
        created: Time of making the file, RFC 3339.

    Raises:
        InputError: A provider has no payout account.
    """
    root = ElementTree.Element("Document", xmlns=PAIN)
    initiation = ElementTree.SubElement(root, "CstmrCdtTrfInitn")
    group = ElementTree.SubElement(initiation, "GrpHdr")
    _text(group, "MsgId", _short("|".join(item.id for item in payouts)))
    _text(group, "CreDtTm", created)
    _text(group, "NbOfTxs", str(len(payouts)))
    _text(group, "InitgPty/Nm", debtor[:140])
    for currency in sorted({item.currency for item in payouts}):
        chosen = [item for item in payouts if item.currency == currency]
        block = ElementTree.SubElement(initiation, "PmtInf")
        _text(block, "PmtInfId", _short(currency + "|".join(item.id for item in chosen)))
        _text(block, "PmtMtd", "TRF")
        _text(block, "NbOfTxs", str(len(chosen)))
        _text(block, "CtrlSum", decimal_text(sum(item.net for item in chosen), currency))
        _text(block, "ReqdExctnDt/Dt", day.isoformat())
        _text(block, "Dbtr/Nm", debtor[:140])
        _account(block, "DbtrAcct", account)
        _text(block, "DbtrAgt/FinInstnId/Othr/Id", "NOTPROVIDED")
        for item in chosen:
            provider = state.providers[item.provider]
            if not provider.payout_account:
                raise InputError(f"Provider {provider.id!r} has no payout account; register one, or put it on hold.")
            transfer = ElementTree.SubElement(block, "CdtTrfTxInf")
            _text(transfer, "PmtId/EndToEndId", _short(item.id))
            amount = ElementTree.SubElement(ElementTree.SubElement(transfer, "Amt"), "InstdAmt", Ccy=currency)
            amount.text = decimal_text(item.net, currency)
            _text(transfer, "Cdtr/Nm", provider.name[:140])
            _account(transfer, "CdtrAcct", provider.payout_account)
            _text(transfer, "RmtInf/Ustrd", item.id[:140])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _under_way(state: State, payout_id: str) -> Payout:
    payout = state.payouts.get(payout_id)
    if payout is None or payout.status != "created":
        known = [name for name, item in state.payouts.items() if item.status == "created"]
        raise InputError(f"No payout {payout_id!r} is under way (under way: {', '.join(known[:5]) or 'none'}).")
    return payout


def _text(parent: ElementTree.Element, path: str, value: str) -> None:
    for name in path.split("/"):
        parent = ElementTree.SubElement(parent, name)
    parent.text = value


def _account(parent: ElementTree.Element, name: str, account: str) -> None:
    plain = account.replace(" ", "")
    iban = len(plain) >= 15 and plain[:2].isalpha() and plain[:2].isupper() and plain[2:4].isdigit() and plain.isalnum()
    _text(parent, f"{name}/Id/IBAN" if iban else f"{name}/Id/Othr/Id", plain[:34])


def _short(text: str) -> str:
    # ISO 20022 identifiers end at 35 characters.
    return sha256(text.encode()).hexdigest()[:32]
