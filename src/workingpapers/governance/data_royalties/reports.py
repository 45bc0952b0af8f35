"""Pages and pictures: attribution side by side, a closed period, a provider's statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from workingpapers.foundations.figures import INK, PALETTE, canvas, to_svg
from workingpapers.foundations.outcome import Figure, Table
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.governance.data_royalties.journal import DEVELOPER, RESERVE, SUSPENSE
from workingpapers.governance.data_royalties.money import decimal_text, minor_digits
from workingpapers.governance.data_royalties.state import PROVIDER_PREFIX

MOVES = {
    "close": "dues booked at the close",
    "adjustment": "corrections",
    "payout": "paid out",
    "returned": "transfers that came back",
}


def bars(values: Mapping[str, Mapping[str, float]], label: str, caption: str) -> Figure:
    """Return horizontal bars.

    Args:
        values: Series -> name -> value; every series has the same names. At most twenty names are drawn, largest first.
        label: Label of the axis.
        caption: What to see.
    """
    series = list(values)
    first = values[series[0]]
    names = sorted(first, key=lambda name: -max(values[one][name] for one in series))[:20]
    height = 0.9 / len(series)
    with canvas(7.0, 1.1 + 0.28 * len(names) * max(1.0, 0.6 * len(series))) as figure:
        axes = figure.axes[0]
        for place, one in enumerate(series):
            offsets = [row + (place - (len(series) - 1) / 2) * height for row in range(len(names))]
            axes.barh(offsets, [values[one][name] for name in names], height * 0.92, label=one, color=PALETTE[place])
        axes.set_yticks(range(len(names)), [_brief(name) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.axvline(0, color=INK, linewidth=0.8)
        if len(series) > 1:
            figure.legend(loc="outside upper left", ncols=len(series))
        return Figure(to_svg(figure), caption)


def close_table(postings: Sequence[tuple[str, int]], currency: str) -> Table:
    """Return where the money of a closed period went, in major units; providers by amount, at most twenty."""
    kept = {DEVELOPER: "developer", RESERVE: "reserve", SUSPENSE: "rounding (fractions that wait)"}
    rows = [[name, decimal_text(-amount, currency)] for account, amount in postings if (name := kept.get(account))]
    dealt = [
        (account, -amount) for account, amount in postings if account not in kept and not account.startswith("income")
    ]
    dealt.sort(key=lambda pair: (-pair[1], pair[0]))
    for account, amount in dealt[:20]:
        rows.append([account.removeprefix("liability:").replace(":", " "), decimal_text(amount, currency)])
    if len(dealt) > 20:
        rest = sum(amount for _, amount in dealt[20:])
        rows.append([f"{len(dealt) - 20} more accounts", decimal_text(rest, currency)])
    base = sum(amount for account, amount in postings if account.startswith("income"))
    rows.append(["sum", decimal_text(base, currency)])
    return Table(
        ["account", f"amount ({currency})"], rows, title=f"What {decimal_text(base, currency)} {currency} became"
    )


def close_figure(postings: Sequence[tuple[str, int]], currency: str, period: str) -> Figure:
    """Return the providers' and escrow amounts of a closed period as bars."""
    unit = 10 ** minor_digits(currency)
    dealt = {
        account.removeprefix(PROVIDER_PREFIX).removeprefix("liability:"): -amount / unit
        for account, amount in postings
        if account.startswith((PROVIDER_PREFIX, "liability:escrow:"))
    }
    return bars({currency: dealt or {"nobody": 0.0}}, f"booked in {period} ({currency})", "The pool, by account.")


def statement_sections(statement: Mapping[str, Any]) -> list[Section]:
    """Return the sections of a provider's statement page."""
    sections: list[Section] = [
        paragraph(
            f"{statement['name']} ({statement['provider']}), {statement['period']}. Every figure below follows from "
            "the lines by exact arithmetic, and the lines are fixed by a signature: the file beside this page lets you "
            "check both."
        )
    ]
    if not statement["leaves"]:
        sections.append(paragraph("Nothing accrued to you and nothing moved in this period."))
    for item in statement["leaves"]:
        sections += _leaf_sections(item["leaf"])
    checkpoint = statement["checkpoint"]
    sections += [
        heading("What was signed"),
        Table(
            ["what", "value"],
            [
                ["Merkle root of all statements", checkpoint["root"]],
                ["hash of the journal's last entry", checkpoint["head"]],
                ["operator's public key", statement["public_key"]],
                ["signature", statement["signature"]],
            ],
        ),
        paragraph(
            "The file establishes that the operator committed to these lines, that the arithmetic is right, and that "
            "the balance goes on from your last statement. It does not establish that every use was reported, or that "
            "the attribution is true."
        ),
    ]
    return sections


def write_statement(path: Path, statement: Mapping[str, Any]) -> Path:
    """Write the page of a statement."""
    return write_report(path, f"Royalty statement {statement['period']}", statement_sections(statement))


def _leaf_sections(leaf: Mapping[str, Any]) -> list[Section]:
    currency = leaf["currency"]
    unit = 10 ** minor_digits(currency)

    def amount(text: str) -> str:
        return decimal_text(int(text), currency)

    lines = sorted(leaf["lines"], key=lambda line: (-Fraction(line["due"]), line["work"]))
    rows = [
        [
            line["work"],
            f"{float(Fraction(int(line['billionths']), 10**9) / unit):.6f}",
            line["share"],
            f"{float(Fraction(line['due']) / unit):.6f}",
        ]
        for line in lines[:50]
    ]
    more = f" The {len(lines) - 50} smaller ones are in the file." if len(lines) > 50 else ""
    moves = [[MOVES.get(kind, kind), amount(value)] for kind, value in leaf["moved"].items()]
    sections: list[Section] = [heading(f"{currency}")]
    if lines:
        dues = {line["work"]: float(Fraction(line["due"]) / unit) for line in lines}
        sections += [
            bars({currency: dues}, f"due ({currency})", f"Your {len(lines)} works of this period, largest first."),
            Table(
                ["work", f"attributed base ({currency})", "your share", f"due ({currency})"],
                rows,
                title="Due by work",
                note=f"Due = attributed base × pool share {leaf['pool_share']} × your share; "
                f"exact fractions are in the file.{more}",
            ),
        ]
    sections.append(
        Table(
            ["balance", f"amount ({currency})"],
            [["opening balance", amount(leaf["opening"])], *moves, ["closing balance", amount(leaf["closing"])]],
            note=f"Fractions of a minor unit: {leaf['carry_in']} carried in, {leaf['carry_out']} carried on.",
        )
    )
    return sections


def _brief(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:31]}…"
