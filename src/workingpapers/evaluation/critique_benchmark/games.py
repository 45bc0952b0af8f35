"""From events to games: every planned game is either decided or dropped with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workingpapers.evaluation.critique_benchmark.plan import Plan
from workingpapers.evaluation.critique_benchmark.records import (
    Answer,
    Claim,
    Critique,
    Question,
    claim_of_answer,
    claim_of_critique,
)
from workingpapers.evaluation.critique_benchmark.rules import Ending, Resolution, ending
from workingpapers.evaluation.critique_benchmark.store import EventStore

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Tally:
    """What a run came to.

    Args:
        games: Decided games: answerer, author, item, outcome, reason, topic.
        drops: Games without an outcome: answerer, author, topic, item, reason, detail.
        questions: Every question written: author, topic, attempt, item, fate.
        claims: Every claim: claim_id, type, author, answerer, critic, mode, item, side, by, judges (with a verdict).
    """

    games: pd.DataFrame
    drops: pd.DataFrame
    questions: pd.DataFrame
    claims: pd.DataFrame

    def drop_counts(self) -> pd.DataFrame:
        """Return the numbers of dropped games by author, answerer and reason."""
        counted = self.drops.groupby(["author", "answerer", "reason"]).size()
        return counted.rename("games").reset_index()


class _Ledger:
    """The records of one run, by what they are about."""

    def __init__(self, store: EventStore, plan: Plan) -> None:
        self.plan = plan
        run = plan.run

        def records(kind: str) -> list[dict[str, Any]]:
            found = (dict(event) for event in store.events(kind))
            return [event for event in found if event.pop("run", run) == run]

        self.questions: dict[tuple[str, str], list[Question]] = {}
        for event in records("question"):
            question = Question(**event)
            self.questions.setdefault((question.author, question.topic), []).append(question)
        self.answers = {(event["item"], event["answerer"]): Answer(**event) for event in records("answer")}
        self.critiques: dict[tuple[str, str, str], dict[str, Critique]] = {}
        for event in records("critique"):
            critique = Critique(**event)
            key = (critique.item, critique.answerer, critique.mode)
            self.critiques.setdefault(key, {})[critique.critic] = critique
        self.panels: dict[str, dict[str, str]] = {}
        for event in records("judgment"):
            self.panels.setdefault(event["claim_id"], {})[event["judge"]] = event["verdict"]
        self.labels: dict[str, list[tuple[str, str]]] = {}
        for event in store.events("label"):
            self.labels.setdefault(event["claim_id"], []).append((event["labeller"], event["verdict"]))
        self.faults = records("fault")
        self.claims: list[dict[str, Any]] = []

    def resolution(self, claim: Claim, author: str) -> Resolution:
        """Decide a claim and note it."""
        panel = self.panels.get(claim.id, {})
        found = self.plan.resolve(claim, author, panel, self.labels.get(claim.id, ()))
        self.claims.append(
            {
                "claim_id": claim.id,
                "type": claim.type,
                "author": author,
                "answerer": claim.answerer,
                "critic": claim.critic,
                "mode": claim.mode,
                "item": claim.item,
                "side": found.side or "",
                "by": found.by,
                "judges": len(panel),
            }
        )
        return found

    def fate(self, question: Question) -> str:
        """Return what the gate made of a question: "failed", "refuted", "gate incomplete" or "accepted"."""
        if question.status != "succeeded":
            return "failed"
        spoken = self.critiques.get((question.item, question.author, "contradictor"), {})
        claims = [claim_of_critique(critique) for critique in spoken.values() if critique.verdict != "correct"]
        found = [self.resolution(claim, question.author) for claim in claims]
        if any(resolution.side == "claimant" for resolution in found):
            return "refuted"
        silent = any(who.name not in spoken for who in self.plan.contradictors(question.author))
        unheard = any(
            resolution.open and len(self.panels.get(claim.id, {})) < len(self.plan.judges(claim, question.author))
            for claim, resolution in zip(claims, found, strict=True)
        )
        return "gate incomplete" if silent or unheard else "accepted"

    def ending(self, question: Question, answerer: str) -> Ending:
        """Return how one answerer's game on an accepted question ended."""
        answer = self.answers.get((question.item, answerer))
        if answer is None:
            return Ending(None, "answer missing")
        ill_posed = None
        if answer.status == "ill-posed":
            ill_posed = self.resolution(claim_of_answer(answer, question.author), question.author)
        critiques = [
            (
                critique.verdict,
                None
                if critique.verdict == "correct"
                else self.resolution(claim_of_critique(critique), question.author),
            )
            for critique in self.critiques.get((question.item, answerer, "evaluator"), {}).values()
        ]
        expected = len(self.plan.critics(question.author, answerer))
        return ending(answer.status, ill_posed, critiques, expected)

    def fault(self, author: str, topic: str, answerer: str) -> str:
        """Return the failed calls that explain a missing record."""
        found = [
            f"{event['reason']} ({event['model']}, {event['stage']})"
            for event in self.faults
            if (event["author"], event["topic"]) == (author, topic) and event["answerer"] in ("", answerer)
        ]
        return "; ".join(dict.fromkeys(found))


def tally(store: EventStore, plan: Plan) -> Tally:
    """Return the games, the dropped games with reasons, and the claims of a run.

    Args:
        store: Its events.
        plan: The run.

    Raises:
        InputError: Human labels contradict each other or name a verdict that does not exist for the claim.
    """
    import pandas as pd

    ledger = _Ledger(store, plan)
    games: list[Mapping[str, Any]] = []
    drops: list[Mapping[str, Any]] = []
    questions: list[Mapping[str, Any]] = []
    for topic in plan.topics:
        for author in (who.name for who in plan.of("benchmark")):
            answerers = [who.name for who in plan.answerers(author)]
            accepted, fate = None, "not reached"
            for question in sorted(ledger.questions.get((author, topic), []), key=lambda item: item.attempt):
                fate = ledger.fate(question)
                row = {"author": author, "topic": topic, "attempt": question.attempt, "item": question.item}
                if fate == "accepted":
                    accepted = question
                questions.append({**row, "fate": fate})
                if fate in ("accepted", "gate incomplete"):
                    break
            endings = {name: ledger.ending(accepted, name) for name in answerers} if accepted else {}
            void = any(end.invalid_item for end in endings.values())
            if void:
                questions[-1] = {**questions[-1], "fate": "ill-posed"}
            for name in answerers:
                end = endings.get(name, Ending(None, _no_question(fate, ledger.fault(author, topic, ""))))
                where = {"answerer": name, "author": author, "topic": topic, "item": accepted.item if accepted else ""}
                if end.outcome is not None and not void:
                    games.append({**where, "outcome": end.outcome, "reason": end.reason})
                else:
                    detail = ledger.fault(author, topic, name) if not void else ""
                    drops.append({**where, "reason": "item ill-posed" if void else end.reason, "detail": detail})
    return Tally(
        pd.DataFrame(games, columns=["answerer", "author", "item", "outcome", "reason", "topic"]),
        pd.DataFrame(drops, columns=["answerer", "author", "topic", "item", "reason", "detail"]),
        pd.DataFrame(questions, columns=["author", "topic", "attempt", "item", "fate"]),
        pd.DataFrame(
            ledger.claims,
            columns=["claim_id", "type", "author", "answerer", "critic", "mode", "item", "side", "by", "judges"],
        ),
    )


def _no_question(fate: str, fault: str) -> str:
    if fate in ("failed", "refuted"):
        return "question missing" if fault else "no valid question"
    return "gate incomplete" if fate == "gate incomplete" else "question missing"
