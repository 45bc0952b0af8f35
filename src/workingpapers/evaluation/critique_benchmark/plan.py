"""What a run will do: who plays which role on which topics, under which settings, and how many calls that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from workingpapers.evaluation.critique_benchmark.prompts import Rubrics
from workingpapers.evaluation.critique_benchmark.records import Claim
from workingpapers.evaluation.critique_benchmark.rules import Mixed, Panel, Resolution, resolve
from workingpapers.evaluation.critique_benchmark.speakers import Participant
from workingpapers.evaluation.critique_benchmark.store import fingerprint
from workingpapers.foundations.errors import InputError

# Tokens of prompt and reply per call that the estimate assumes: long reasoning, short verdicts.
ASSUMED_TOKENS = {
    "question": 2500,
    "answer": 2500,
    "self-check": 2500,
    "gate critique": 2500,
    "critique": 2500,
    "debate": 2500,
    "judgment": 3500,
}


@dataclass(frozen=True)
class Settings:
    """Rules of a run; all of them are part of its identity.

    Args:
        check_rounds: Most rounds of self-check of a question or an answer; 0 for none.
        attempts: Most questions that an author may write for one topic.
        debate_rounds: Most rounds of a debate, two turns each.
        panel: "unanimous" by side, or "majority".
        mixed: Whom the verdict "mixed" favours.
        critics: Who attacks an answer: its author alone, or all models with the role critique.
        gate: Whether other models must fail to refute the author's own answer first.
        ill_posed_claims: Whether an answerer may claim that the item is ill-posed.
        max_tokens: Most tokens of a reply.
        seed: Seed given to the endpoints.
    """

    check_rounds: int = 5
    attempts: int = 5
    debate_rounds: int = 5
    panel: Panel = "unanimous"
    mixed: Mixed = "claimant"
    critics: Literal["author", "all"] = "author"
    gate: bool = True
    ill_posed_claims: bool = True
    max_tokens: int = 4096
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """A run.

    Args:
        participants: The models.
        topics: One question an author and topic.
        settings: The rules.
        rubrics: The texts.
    """

    participants: tuple[Participant, ...]
    topics: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    rubrics: Rubrics = field(default_factory=Rubrics)

    def __post_init__(self) -> None:
        names = [who.name for who in self.participants]
        for kind, values in (("model", names), ("topic", list(self.topics))):
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise InputError(f"The {kind} {twice!r} is listed twice; list it once.")
        if not self.topics:
            raise InputError("There are no topics; list at least one.")
        if not self.of("benchmark") or len(self.of("answer")) < 2:
            raise InputError(
                f"There are {len(self.of('benchmark'))} authors and {len(self.of('answer'))} answerers; a benchmark "
                "needs one author and two answerers at least."
            )
        if len(self.of("judge")) < 3:
            raise InputError(
                f"There are {len(self.of('judge'))} judges, and the two sides of a claim never judge it; name three "
                "models at least."
            )

    def of(self, role: str) -> tuple[Participant, ...]:
        """Return the participants with a role.

        Args:
            role: benchmark, answer, critique or judge.
        """
        return tuple(who for who in self.participants if role in who.roles)

    def answerers(self, author: str) -> tuple[Participant, ...]:
        """Return who answers an author's items: all answerers but the author.

        Args:
            author: Name of the author.
        """
        return tuple(who for who in self.of("answer") if who.name != author)

    def contradictors(self, author: str) -> tuple[Participant, ...]:
        """Return who tries to refute the author's own answer at the gate.

        Args:
            author: Name of the author.
        """
        return tuple(who for who in self.of("critique") if who.name != author) if self.settings.gate else ()

    def critics(self, author: str, answerer: str) -> tuple[Participant, ...]:
        """Return who attacks an answer.

        Args:
            author: Name of the author of the item.
            answerer: Name of the answerer.
        """
        return tuple(
            who
            for who in self.participants
            if who.name == author
            or (self.settings.critics == "all" and "critique" in who.roles and who.name != answerer)
        )

    def judges(self, claim: Claim, author: str) -> tuple[Participant, ...]:
        """Return the judges of a claim: those who do not take part in it.

        Args:
            claim: The claim.
            author: Author of the item.
        """
        sides = {claim.claimant, claim.defender, author}
        return tuple(who for who in self.of("judge") if who.name not in sides)

    def resolve(
        self, claim: Claim, author: str, panel: Mapping[str, str], labels: Sequence[tuple[str, str]]
    ) -> Resolution:
        """Decide a claim by the rules of this run; see :func:`.rules.resolve`.

        Args:
            claim: The claim.
            author: Author of the item.
            panel: Judge -> verdict.
            labels: Labeller and verdict, of humans.
        """
        judges = [who.name for who in self.judges(claim, author)]
        sides = (claim.claimant, claim.defender, author)
        rules = self.settings
        return resolve(claim.type, panel, judges, sides, labels, rule=rules.panel, mixed=rules.mixed)

    @property
    def run(self) -> str:
        """Hash of everything that decides what this run does; records of another run never mix with it."""
        models = [
            {"name": who.name, "roles": sorted(who.roles), "temperature": who.temperature, "extra": dict(who.extra)}
            for who in self.participants
        ]
        return fingerprint([models, list(self.topics), asdict(self.settings), asdict(self.rubrics)])[:16]


@dataclass(frozen=True)
class Cost:
    """Calls and tokens of one stage.

    Args:
        stage: Name of the stage.
        expected: Calls under the assumptions of :func:`estimate`.
        most: Calls that cannot be exceeded, apart from retries and repairs.
        tokens: Expected tokens, prompts included.
    """

    stage: str
    expected: int
    most: int
    tokens: int


def estimate(plan: Plan, attempts: float = 1.3, claims: float = 0.3, rounds: float = 1.2) -> list[Cost]:
    """Return what a run will cost, stage by stage.

    Args:
        plan: The run.
        attempts: Questions written per topic and author, on average.
        claims: Share of critiques that claim an error.
        rounds: Rounds of self-check and of debate, on average.
    """
    rules, topics = plan.settings, len(plan.topics)
    attempts = min(attempts, rules.attempts)
    checks, debates = min(rounds, rules.check_rounds), min(rounds, rules.debate_rounds)
    items, games, gate, attacks, judged_gate, judged_attacks = 0, 0, 0, 0, 0, 0
    for who in plan.of("benchmark"):
        items += topics
        answerers, contradictors = plan.answerers(who.name), plan.contradictors(who.name)
        games += topics * len(answerers)
        gate += topics * len(contradictors)
        for other in contradictors:
            judged_gate += topics * sum(judge.name not in (who.name, other.name) for judge in plan.of("judge"))
        for other in answerers:
            critics = plan.critics(who.name, other.name)
            attacks += topics * len(critics)
            for critic in critics:
                sides = {who.name, other.name, critic.name}
                judged_attacks += topics * sum(judge.name not in sides for judge in plan.of("judge"))
    most = rules.attempts
    rows = {
        "question": (attempts * items * max(1, checks), most * items * max(1, rules.check_rounds)),
        "self-check": (checks * (attempts * items + games), rules.check_rounds * (most * items + games)),
        "gate critique": (attempts * gate, most * gate),
        "answer": (games * max(1, checks), games * max(1, rules.check_rounds)),
        "critique": (attacks, attacks),
        "debate": (
            2 * debates * claims * (attempts * gate + attacks),
            2 * rules.debate_rounds * (most * gate + max(attacks, games)),
        ),
        "judgment": (
            claims * (attempts * judged_gate + judged_attacks),
            most * judged_gate + max(judged_attacks, games * len(plan.of("judge"))),
        ),
    }
    return [
        Cost(stage, round(expected), round(top), round(expected * ASSUMED_TOKENS[stage]))
        for stage, (expected, top) in rows.items()
    ]
