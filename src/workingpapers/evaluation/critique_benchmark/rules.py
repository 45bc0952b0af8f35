"""The rules, as pure functions: verdict to side, panel to resolution, resolutions to the outcome of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workingpapers.foundations.errors import InputError, near_match

ClaimType = Literal["critique", "illposed"]
Side = Literal["claimant", "defender"]
Mixed = Literal["claimant", "nobody"]
Panel = Literal["unanimous", "majority"]

VERDICTS: dict[ClaimType, dict[str, Side | None]] = {
    "critique": {
        "claimant_wins": "claimant",
        "mixed": "claimant",
        "defender_wins_incorrect": "defender",
        "defender_wins_minor": "defender",
        "wrong_problem": "defender",
        "unknown": None,
    },
    "illposed": {
        "claimant_wins": "claimant",
        "mixed": "claimant",
        "defender_wins_incorrect": "defender",
        "wrong_problem": "defender",
        "unknown": None,
    },
}


def side_of(claim_type: ClaimType, verdict: str, mixed: Mixed = "claimant") -> Side | None:
    """Return whom a verdict favours; None where it favours nobody.

    Args:
        claim_type: "critique" or "illposed".
        verdict: One of the verdicts of that type.
        mixed: Whom the verdict "mixed" (some of the named flaws are true, some false) favours.

    Raises:
        InputError: There is no such verdict for this type of claim.
    """
    table = VERDICTS[claim_type]
    if verdict not in table:
        hint = near_match(verdict, table) or f"; the verdicts are {', '.join(table)}."
        raise InputError(f"{verdict!r} is not a verdict on a claim of type {claim_type!r}{hint}")
    return None if verdict == "mixed" and mixed == "nobody" else table[verdict]


@dataclass(frozen=True)
class Resolution:
    """How a claim ended.

    Args:
        side: Who prevailed; None where nobody did.
        by: Who decided: "human", "panel" or, for an open claim, "nobody".
    """

    side: Side | None
    by: Literal["human", "panel", "nobody"]

    @property
    def open(self) -> bool:
        """Whether the claim waits for a human."""
        return self.by == "nobody"


def resolve(
    claim_type: ClaimType,
    panel: Mapping[str, str],
    judges: Sequence[str],
    participants: Sequence[str],
    labels: Sequence[tuple[str, str]] = (),
    *,
    rule: Panel = "unanimous",
    mixed: Mixed = "claimant",
) -> Resolution:
    """Decide a claim: a human label wins; else the panel, if it agrees; else the claim stays open for a human.

    Args:
        claim_type: "critique" or "illposed".
        panel: Judge -> verdict.
        judges: All judges of the panel; one without a verdict counts as "unknown".
        participants: Models that take part in the claim and may not judge it.
        labels: Pairs of labeller and verdict, by humans. The human verdict "unknown" closes a claim without a winner.
        rule: "unanimous" by side, or "majority" of all judges.
        mixed: See :func:`side_of`.

    Raises:
        InputError: A participant judged, a judge is not of the panel, human labels contradict each other, or a verdict
            is unknown.
    """
    for judge in panel:
        if judge in participants:
            raise InputError(f"{judge!r} takes part in the claim and judged it; remove its verdict.")
        if judge not in judges:
            raise InputError(f"{judge!r} judged but is not among the judges {', '.join(judges)}; remove its verdict.")
    if labels:
        if len({verdict for _, verdict in labels}) > 1:
            first, second = labels[0], next(label for label in labels if label[1] != labels[0][1])
            raise InputError(
                f"Human labels contradict each other: {first[0]!r} says {first[1]!r} and {second[0]!r} {second[1]!r}; "
                "settle on one."
            )
        return Resolution(side_of(claim_type, labels[0][1], mixed), "human")
    sides = [side_of(claim_type, panel.get(judge, "unknown"), mixed) for judge in judges]
    for side in ("claimant", "defender"):
        votes = sides.count(side)  # type: ignore[arg-type]
        if sides and (votes == len(sides) if rule == "unanimous" else 2 * votes > len(sides)):
            return Resolution(side, "panel")  # type: ignore[arg-type]
    return Resolution(None, "nobody")


@dataclass(frozen=True)
class Ending:
    """How a game ended.

    Args:
        outcome: 1 the answer stands, 0 it does not, None the game is dropped.
        reason: Which rule decided.
        invalid_item: Whether the item is void and takes all its games with it.
    """

    outcome: int | None
    reason: str
    invalid_item: bool = False


def ending(
    status: str, ill_posed: Resolution | None, critiques: Sequence[tuple[str, Resolution | None]], expected: int = 1
) -> Ending:
    """Return the outcome of one answer. A claim that nobody decided drops the game; it is never a tie.

    Args:
        status: Status of the answer: "succeeded", "failed" or "ill-posed".
        ill_posed: How the answerer's claim that the item is ill-posed ended, where it made one.
        critiques: For each critic that spoke: its verdict and, unless that is "correct", how its claim ended.
        expected: Number of critics that had to speak.
    """
    if status == "failed":
        return Ending(0, "answerer gave up")
    if status == "ill-posed":
        side = ill_posed.side if ill_posed else None
        if side is None:
            return Ending(None, "ill-posed claim undecided")
        return Ending(0, "ill-posed claim rejected") if side == "defender" else Ending(None, "item ill-posed", True)
    claims = [resolution for verdict, resolution in critiques if verdict != "correct"]
    if any(resolution is not None and resolution.side == "claimant" for resolution in claims):
        return Ending(0, "critique upheld")
    if len(critiques) < expected:
        return Ending(None, "critique missing")
    if any(resolution is None or resolution.side is None for resolution in claims):
        return Ending(None, "critique undecided")
    return Ending(1, "critique rejected" if claims else "not attacked")
