"""Commands of the operator: open the books, post events, close a month, correct, pay, export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_writable, whole_file
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile
from workingpapers.governance.data_royalties.money import counted

if TYPE_CHECKING:
    from workingpapers.governance.data_royalties.ledger import Ledger


def run_open(
    ledger: str, *, providers: InputFile, works: InputFile, policy: InputFile, key: Path = Path("ledger-key.pem")
) -> Outcome:
    """Open new books under a policy, with the first providers and works.

    Args:
        ledger: SQLite file to make, or postgresql:// URL of an empty database.
        providers: CSV: id, name and, optionally, payout_account, withholding, status (active or hold).
        works: CSV, one line for each work and provider: work, provider and, optionally, share, content_hash, licence,
            valid_from, valid_to, models.
        policy: TOML: developer_share, pool_share, reserve_share and the other fields of a policy.
        key: PEM file of the Ed25519 key that signs; made where it does not exist.
    """
    from workingpapers.governance.data_royalties.ledger import Ledger
    from workingpapers.governance.data_royalties.proofs import load_or_make_key
    from workingpapers.governance.data_royalties.registry import read_policy, read_providers, read_works
    from workingpapers.governance.data_royalties.store import is_postgres

    if not is_postgres(ledger):
        check_writable(ledger)
    givers, things, rule = read_providers(providers), read_works(works), read_policy(policy)
    signing = load_or_make_key(check_writable(key) if not key.exists() else key)
    books = Ledger.create(ledger, givers, things, rule, signing)
    public = books.state.public_key
    books.close()
    return Outcome(
        f"Opened books with {counted(len(givers), 'provider')} and {counted(len(things), 'work')}. "
        f"Give providers the public key {public}; keep {str(key)!r} secret.",
        files=[key] if is_postgres(ledger) else [Path(ledger), key],
        data={"public_key": public, "providers": len(givers), "works": len(things)},
    )


def run_register(
    ledger: str, *, providers: InputFile | None = None, works: InputFile | None = None, policy: InputFile | None = None
) -> Outcome:
    """Add or replace providers, works or the policy, from the next post and the next close on.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        providers: CSV of providers, as for open.
        works: CSV of works, as for open.
        policy: TOML of the new policy.
    """
    from workingpapers.governance.data_royalties.registry import read_policy, read_providers, read_works

    if not (providers or works or policy):
        raise InputError("Nothing to register; give --providers, --works or --policy.")
    givers = read_providers(providers) if providers else []
    things = read_works(works) if works else []
    rule = read_policy(policy) if policy else None
    with _books(ledger) as books, books.writing():
        if givers or things:
            books.register(givers, things)
        if rule:
            books.set_policy(rule)
        seq = books.state.seq
    said = f"Registered {counted(len(givers), 'provider')} and {counted(len(things), 'work')}"
    said += ", and a new policy" if rule else ""
    return Outcome(f"{said}; the journal ends at entry {seq}.", data={"seq": seq})


def run_post(
    ledger: str,
    events: InputFile,
    scores: InputFile,
    *,
    method: str | None = None,
    batch: Annotated[int, Between(1, 1_000_000)] = 50_000,
    memory: str = "1GB",
    progress: Progress = silent,
) -> Outcome:
    """Book paid events with their attribution scores; posting the same files again changes nothing.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        events: CSV or Parquet: event_id, time, currency, gross_minor and, optionally, tax_minor, cost_minor,
            model_version, refund_of.
        scores: CSV or Parquet: event_id, work, score and, optionally, stderr; work '-' is what no work explains.
        method: Attribution method and version, kept in the journal.
        batch: Events in one entry of the journal.
        memory: Memory that the aggregation may use before it goes to disk.
    """
    from workingpapers.governance.data_royalties.usage import post_files

    with _books(ledger) as books:
        result = post_files(
            books, events, scores, method=method or "", batch_size=batch, memory=memory, progress=progress
        )
    unknown = ""
    if result.unknown:
        names = ", ".join(result.unknown[:5])
        unknown = f" Scored works that are not registered ({names}) were treated as the policy says."
    return Outcome(
        f"Booked {counted(result.new, 'event')} in {counted(result.entries, 'entry', 'entries')}; "
        f"{result.repeated} were booked before and changed nothing.{unknown}",
        data={
            "new": result.new,
            "repeated": result.repeated,
            "entries": result.entries,
            "unknown": list(result.unknown),
        },
    )


def run_close(
    ledger: str, period: str, *, key: InputFile = Path("ledger-key.pem"), report: OutputFile | None = None
) -> Outcome:
    """Close a month: book what is due, fix every statement under one root, sign the journal.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        period: The month, YYYY-MM.
        key: PEM file of the key that the books were opened with.
        report: HTML page to write.
    """
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.governance.data_royalties.proofs import load_or_make_key
    from workingpapers.governance.data_royalties.reports import close_figure, close_table

    if not key.exists():
        raise InputError(f"There is no key {str(key)!r}; name the one that the books were opened with in --key.")
    with _books(ledger) as books:
        entries = books.close_period(period, load_or_make_key(key))
    drafts = [entry.draft() for entry in entries[:-1]]
    tables = [close_table(draft.postings, draft.currency) for draft in drafts]
    figures = [close_figure(draft.postings, draft.currency, period) for draft in drafts]
    leaves = entries[-1].draft().data["leaves"]
    summary = f"Closed and sealed {period}: {counted(leaves, 'provider balance')} fixed under one signed root."
    files = [write_report(report, f"Royalties of {period}", [paragraph(summary), *figures, *tables])] if report else []
    closes = {
        draft.currency: {account: -amount for account, amount in draft.postings if not account.startswith("income")}
        for draft in drafts
    }
    return Outcome(summary, tables, figures, files, {"period": period, "booked_minor": closes, "statements": leaves})


def run_correct(
    ledger: str,
    *,
    reason: str,
    event: str | None = None,
    provider: str | None = None,
    currency: str | None = None,
    amount_minor: int | None = None,
    fund: Literal["reserve", "developer", "escrow"] = "reserve",
    work: str | None = None,
    dispute_period: str | None = None,
    entry: int | None = None,
) -> Outcome:
    """Correct by a new entry: reverse an event, adjust a provider's balance, release escrow, or note a dispute.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        reason: Why; kept in the journal.
        event: Event to reverse in full.
        provider: Provider whose balance is adjusted, or who disputes.
        currency: Currency of the adjustment.
        amount_minor: Minor units to credit; negative takes back.
        fund: Where the amount comes from.
        work: Work whose escrow is released to the provider (fund escrow); 'unattributed' for the money of no work.
        dispute_period: Sealed month that the provider disputes; nothing is booked but the note.
        entry: Entry that is corrected (the dispute's, or the close's).
    """
    from workingpapers.governance.data_royalties import journal

    chosen = [event is not None, dispute_period is not None, amount_minor is not None]
    if sum(chosen) != 1:
        raise InputError("Give one of --event, --dispute-period and --amount-minor: one correction is one entry.")
    if event is None and provider is None:
        raise InputError("Name the provider with --provider.")
    if amount_minor is not None and (not amount_minor or currency is None):
        raise InputError("An adjustment needs an --amount-minor other than 0 and a --currency.")
    if (fund == "escrow") != (work is not None):
        raise InputError("--work goes with --fund escrow, and only with it: it names whose escrow is released.")
    with _books(ledger) as books:
        if event is not None:
            receipt = books.reverse(event, reason)
            seq, said = max(receipt.posted.values()), f"Reversed event {event}"
        elif dispute_period is not None:
            seq, said = books.dispute(str(provider), dispute_period, reason).seq, "Noted the dispute"
        else:
            funds = {"reserve": journal.RESERVE, "developer": journal.DEVELOPER}
            source = journal.escrow_account(str(work)) if fund == "escrow" else funds[fund]
            done = books.adjust(str(provider), str(currency), int(amount_minor or 0), reason, source, entry)
            seq, said = done.seq, f"Adjusted the balance of {provider}"
    return Outcome(f"{said} in entry {seq}.", data={"entry": seq})


def run_pay(
    ledger: str,
    *,
    out: OutputFile | None = None,
    xml: OutputFile | None = None,
    debtor: str | None = None,
    account: str | None = None,
    day: str | None = None,
    settled: tuple[str, ...] = (),
    returned: tuple[str, ...] = (),
) -> Outcome:
    """Pay what is due, old enough and above the threshold; or book what the bank reports of earlier payouts.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        out: CSV of the payout batch to write.
        xml: ISO 20022 pain.001 file of the batch to write; needs --debtor and --account.
        debtor: Name of the payer.
        account: Account that is debited.
        day: Day of payment, YYYY-MM-DD; today by default.
        settled: Payouts that the bank carried out; nothing new is paid then.
        returned: Payouts that came back; nothing new is paid then.
    """
    from workingpapers.governance.data_royalties import payout as payouts
    from workingpapers.governance.data_royalties.money import decimal_text

    if settled or returned:
        with _books(ledger) as books, books.writing():
            for name in settled:
                payouts.settle(books, name)
            for name in returned:
                payouts.give_back(books, name, "returned by the bank")
        return Outcome(f"Booked {counted(len(settled), 'payout')} as settled and {len(returned)} as returned.")
    if out is None:
        raise InputError("Name the file of the payout batch with --out.")
    if xml is not None and not (debtor and account):
        raise InputError("--xml needs the payer: give --debtor and --account.")
    try:
        when = date.fromisoformat(day) if day else date.today()
    except ValueError:
        raise InputError(f"--day is {day!r}; write it as YYYY-MM-DD.") from None
    with _books(ledger) as books, books.writing():
        made, decisions = payouts.pay(books, when)
        text = payouts.batch_csv(made, books.state)
        message = ""
        if xml is not None and made:
            message = payouts.batch_xml(
                made, books.state, debtor=str(debtor), account=str(account), day=when, created=books.now()
            )
        # Inside the transaction: a batch that cannot be written is not booked.
        with whole_file(out) as stream:
            stream.write(text)
        if xml is not None and message:
            with whole_file(xml) as stream:
                stream.write(message)
    rows = [
        [item.provider, item.currency, decimal_text(item.balance, item.currency), item.reason or "paid"]
        for item in decisions
    ]
    table = Table(["provider", "currency", "balance", "decision"], rows, title=f"Balances on {when.isoformat()}")
    summary = f"{counted(len(made), 'payout')}; {counted(len(decisions) - len(made), 'balance')} not paid."
    written = [out, *([xml] if xml is not None and message else [])]
    data = {"payouts": [{"id": item.id, "net_minor": item.net, "currency": item.currency} for item in made]}
    return Outcome(summary, [table], files=written, data=data)


def run_export(ledger: str, *, out: OutputFile, style: Literal["beancount", "hledger"] = "beancount") -> Outcome:
    """Write the journal as plain text that beancount or hledger checks once more.

    Args:
        ledger: SQLite file or postgresql:// URL of the books.
        out: File to write.
        style: Which tool it is for.
    """
    from workingpapers.governance.data_royalties.export import beancount_lines, hledger_lines

    lines = 0
    with _books(ledger) as books, whole_file(out) as stream:
        for line in (beancount_lines if style == "beancount" else hledger_lines)(books.store.entries()):
            stream.write(line + "\n")
            lines += 1
    return Outcome(f"Wrote {counted(lines, 'line')} for {style}.", files=[out], data={"lines": lines})


@contextmanager
def _books(url: str) -> Iterator[Ledger]:
    from workingpapers.governance.data_royalties.ledger import Ledger

    books = Ledger.open(url)
    try:
        yield books
    finally:
        books.close()
