"""What the protocol writes down: one frozen record for each kind of event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from workingpapers.evaluation.critique_benchmark.rules import ClaimType
from workingpapers.evaluation.critique_benchmark.store import fingerprint

Status = Literal["succeeded", "failed", "ill-posed"]
Mode = Literal["contradictor", "evaluator"]


@dataclass(frozen=True)
class Question:
    """An item: who wrote it about what, at which attempt, with the author's own answer."""

    item: str
    author: str
    topic: str
    attempt: int
    text: str
    self_answer: str
    status: Status
    rounds: int


@dataclass(frozen=True)
class Answer:
    """An answer; `notes` say why the item is ill-posed where the answerer claims so."""

    item: str
    answerer: str
    text: str
    status: Status
    notes: str
    rounds: int


@dataclass(frozen=True)
class Critique:
    """An attack on an answer: by a contradictor on the author's own, or by an evaluator on an answerer's."""

    item: str
    answerer: str
    critic: str
    mode: Mode
    verdict: str
    notes: str
    suggestions: str


@dataclass(frozen=True)
class Claim:
    """A claim to be ruled on.

    Args:
        type: "critique" or "illposed".
        item: The item.
        answerer: Whose answer is attacked, or who calls the item ill-posed.
        critic: Who attacks; empty for "illposed".
        mode: Mode of the critique; empty for "illposed".
        text: What is claimed.
        claimant: Who claims.
        defender: Who defends.
    """

    type: ClaimType
    item: str
    answerer: str
    critic: str
    mode: str
    text: str
    claimant: str
    defender: str

    @property
    def id(self) -> str:
        """Hash of the claim, text included: a label never reaches another claim."""
        return fingerprint([self.type, self.item, self.answerer, self.critic, self.mode, self.text])[:16]


@dataclass(frozen=True)
class Debate:
    """The turns of a debate: speaker, message, concede."""

    claim_id: str
    turns: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Judgment:
    """One judge's verdict on one claim."""

    claim_id: str
    judge: str
    verdict: str
    confidence: int
    reasoning: str


@dataclass(frozen=True)
class Label:
    """A human's verdict on one claim."""

    claim_id: str
    labeller: str
    verdict: str


@dataclass(frozen=True)
class Failure:
    """A call that came to nothing: why a game may be missing."""

    stage: str
    author: str
    topic: str
    answerer: str
    model: str
    reason: str
    detail: str


def claim_of_critique(critique: Critique) -> Claim:
    """Return the claim that a critique makes.

    Args:
        critique: A critique whose verdict is not "correct".
    """
    text = f"{critique.verdict}: {critique.notes}" if critique.notes else critique.verdict
    return Claim(
        "critique", critique.item, critique.answerer, critique.critic, critique.mode, text, critique.critic,
        critique.answerer,
    )  # fmt: skip


def claim_of_answer(answer: Answer, author: str) -> Claim:
    """Return the claim of an answerer that the item is ill-posed.

    Args:
        answer: An answer with the status "ill-posed".
        author: Author of the item, who defends it.
    """
    return Claim("illposed", answer.item, answer.answerer, "", "", answer.notes, answer.answerer, author)


def body(record: Any, run: str = "") -> Mapping[str, Any]:
    """Return a record as JSON types, with the run that it belongs to.

    Args:
        record: Any record of this module.
        run: Hash of the run's configuration; empty for what belongs to no run.
    """
    values = asdict(record)
    if "turns" in values:
        values["turns"] = list(values["turns"])
    return {"run": run, **values} if run else values
