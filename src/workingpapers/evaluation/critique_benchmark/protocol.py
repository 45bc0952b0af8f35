"""The protocol: question, gate, answer, critique, debate, judgment. Every step goes to the store as it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from workingpapers.evaluation.critique_benchmark import prompts
from workingpapers.evaluation.critique_benchmark.caller import BudgetSpent, Caller, Effort
from workingpapers.evaluation.critique_benchmark.messages import (
    Attack,
    Check,
    CritiqueVerdict,
    IllPosedVerdict,
    Turn,
    Verdict,
    read_question,
)
from workingpapers.evaluation.critique_benchmark.plan import Plan
from workingpapers.evaluation.critique_benchmark.prompts import block
from workingpapers.evaluation.critique_benchmark.records import (
    Answer,
    Claim,
    Critique,
    Debate,
    Failure,
    Judgment,
    Mode,
    Question,
    Status,
    body,
    claim_of_answer,
    claim_of_critique,
)
from workingpapers.evaluation.critique_benchmark.rules import VERDICTS, Resolution
from workingpapers.evaluation.critique_benchmark.speakers import Fault, InspectSpeaker, Participant
from workingpapers.evaluation.critique_benchmark.store import EventStore, fingerprint
from workingpapers.foundations.progress import Progress, silent


@dataclass(frozen=True)
class Spent:
    """What a run used.

    Args:
        calls: New calls, retries included.
        reused: Replies found in the store.
        tokens: Tokens of the new calls.
        finished: Whether the budget sufficed.
    """

    calls: int
    reused: int
    tokens: int
    finished: bool


class Benchmark:
    """One run of the protocol. Running it again goes on where it was left and pays for nothing twice.

    Args:
        plan: Who does what.
        store: Where events are kept.
        effort: Budget, retries, concurrency.
        progress: Called as topics are done.
    """

    def __init__(
        self, plan: Plan, store: EventStore, effort: Effort | None = None, progress: Progress = silent
    ) -> None:
        self.plan, self.store, self.progress = plan, store, progress
        self.caller = Caller(store, effort or Effort(), plan.settings.seed, plan.settings.max_tokens)
        self.run_id = plan.run
        self._participants = {who.name: who for who in plan.participants}
        self._names = tuple(self._participants)
        self._finished, self._done = True, 0

    def run(self) -> Spent:
        """Run to the end, or until the budget is spent."""
        return asyncio.run(self.run_async())

    async def run_async(self) -> Spent:
        """Run inside a running event loop, such as that of a notebook."""
        labels: dict[str, list[tuple[str, str]]] = {}
        for event in self.store.events("label"):
            labels.setdefault(event["claim_id"], []).append((event["labeller"], event["verdict"]))
        self._labels = labels
        pairs = [(author, topic) for topic in self.plan.topics for author in self.plan.of("benchmark")]
        self._total = len(pairs)
        chapters = [asyncio.ensure_future(self._chapter(author, topic)) for author, topic in pairs]
        try:
            await asyncio.gather(*chapters)
        finally:
            # Nobody may still be speaking when the connections close, or the close would be written down as a fault.
            for chapter in chapters:
                chapter.cancel()
            await asyncio.gather(*chapters, return_exceptions=True)
            for speaker in {id(who.speaker): who.speaker for who in self.plan.participants}.values():
                if isinstance(speaker, InspectSpeaker):
                    await speaker.aclose()
        return Spent(self.caller.calls, self.caller.reused, self.caller.tokens, self._finished)

    async def _chapter(self, author: Participant, topic: str) -> None:
        """Everything about one author and one topic."""
        question = await self._guarded(author.name, topic, "", partial(self._accepted_question, author, topic))
        if question is not None:
            games = [
                self._guarded(author.name, topic, who.name, partial(self._game, author, question, who))
                for who in self.plan.answerers(author.name)
            ]
            await asyncio.gather(*games)
        self._done += 1
        self.progress(self._done / self._total, f"{author.name}: {topic}"[:60])

    async def _guarded(self, author: str, topic: str, answerer: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do `work`; a failed call ends it and is written down, a spent budget ends it."""
        try:
            return await work()
        except BudgetSpent:
            self._finished = False
        except Fault as fault:
            self._write("fault", Failure(fault.stage, author, topic, answerer, fault.model, fault.reason, fault.detail))
        return None

    def _write(self, kind: str, record: Any) -> None:
        self.store.append(kind, body(record, self.run_id))

    # Questions

    async def _accepted_question(self, author: Participant, topic: str) -> Question | None:
        """Let the author write until a question survives the gate."""
        rejected: list[str] = []
        for attempt in range(1, self.plan.settings.attempts + 1):
            question = await self._question(author, topic, attempt, rejected)
            if question.status == "succeeded":
                work = [
                    self._guarded(author.name, topic, "", partial(self._contradict, question, author, who))
                    for who in self.plan.contradictors(author.name)
                ]
                upheld = await asyncio.gather(*work)
                if True not in upheld:
                    # Without every contradictor's word nobody knows that the question is sound.
                    return None if None in upheld else question
            rejected.append(question.text)
        return None

    async def _question(self, author: Participant, topic: str, attempt: int, rejected: list[str]) -> Question:
        rubrics = self.plan.rubrics
        system = prompts.system("You write questions for a benchmark of models.", rubrics.question, rubrics.answer)
        digest = rubrics.digest("question", "answer")
        task = f"Task: write a question\n\n{block('topic', topic)}"
        if rejected:
            task += "\n\nThese questions of yours were found unsound. Write a new, different one.\n" + "\n".join(
                block("rejected", text) for text in rejected
            )
        about = f"topic {topic}, attempt {attempt}"
        form = f"Reply in exactly this form:\n{prompts.QUESTION_FORM}"

        async def draft(user: str, about: str) -> tuple[str, str]:
            return await self.caller.ask_for(
                read_question, prompts.QUESTION_FORM, author, "question", digest, system, f"{user}\n\n{form}", about
            )

        def shown(pair: tuple[str, str]) -> str:
            return f"{block('question', pair[0])}\n{block('answer', pair[1])}"

        pair, status, _, rounds = await self._polished(author, "a question", task, draft, shown, system, digest, about)
        item = fingerprint([author.name, topic, attempt, *pair])[:16]
        question = Question(item, author.name, topic, attempt, pair[0], pair[1], status, rounds)
        self._write("question", question)
        return question

    async def _polished(
        self,
        who: Participant,
        what: str,
        task: str,
        draft: Callable[[str, str], Awaitable[Any]],
        shown: Callable[[Any], str],
        system: str,
        digest: str,
        about: str,
        may_be_ill_posed: bool = False,
    ) -> tuple[Any, Status, str, int]:
        """Draft, check and refine; return the draft, its status, the last issues and the rounds used."""
        made = await draft(task, about)
        rounds = self.plan.settings.check_rounds
        for number in range(1, rounds + 1):
            again = f"{about}, round {number}"
            user = f"Task: check {what} of your own\n\n{shown(made)}"
            check = await self.caller.ask_message(
                Check, prompts.CHECK_FORM, who, "self-check", digest, system, user, again
            )
            if check.ill_posed and may_be_ill_posed:
                return made, "ill-posed", check.issues or "The question is ill-posed.", number
            if check.verdict == "pass" and not (check.ill_posed and what == "a question"):
                return made, "succeeded", "", number
            if number < rounds:
                issues = block("issues", f"{check.issues}\n{check.improvements}".strip())
                made = await draft(
                    f"{task}\n\nYour draft failed your own check; mend it.\n{shown(made)}\n{issues}", again
                )
        return made, "failed" if rounds else "succeeded", "", rounds

    async def _contradict(self, question: Question, author: Participant, who: Participant) -> bool | None:
        """Return whether an attack on the author's own answer is upheld; None where a judge was not heard."""
        critique = await self._critique(question, author.name, question.self_answer, who, "contradictor")
        if critique.verdict == "correct":
            return False
        claim = claim_of_critique(critique)
        aliases = {author.name: "Alice", who.name: "Bob"}
        resolution, heard = await self._argue(claim, question, question.self_answer, aliases)
        return None if resolution.open and not heard else resolution.side == "claimant"

    # Games

    async def _game(self, author: Participant, question: Question, who: Participant) -> None:
        answer = await self._answer(question, who)
        aliases = {author.name: "Alice", who.name: "Bob"}
        if answer.status == "ill-posed":
            await self._argue(claim_of_answer(answer, author.name), question, answer.text, aliases)
        elif answer.status == "succeeded":
            critics = self.plan.critics(author.name, who.name)
            work = [
                self._guarded(
                    author.name, question.topic, who.name, partial(self._attack, question, answer, critic, aliases)
                )
                for critic in critics
            ]
            await asyncio.gather(*work)

    async def _answer(self, question: Question, who: Participant) -> Answer:
        rubrics = self.plan.rubrics
        system = prompts.system("You answer the questions of a benchmark.", rubrics.answer, rubrics.question)
        digest = rubrics.digest("answer", "question")
        asked = block("question", self._hidden(question.text))
        task = f"Task: answer the question\n\n{asked}"
        about = f"item {question.item}"

        async def draft(user: str, about: str) -> str:
            return await self.caller.ask(who, "answer", digest, system, user, about)

        def shown(text: str) -> str:
            return f"{asked}\n{block('answer', text)}"

        text, status, notes, rounds = await self._polished(
            who, "an answer", task, draft, shown, system, digest, about, self.plan.settings.ill_posed_claims
        )
        answer = Answer(question.item, who.name, text, status, notes, rounds)
        self._write("answer", answer)
        return answer

    async def _critique(self, question: Question, answerer: str, answer: str, who: Participant, mode: Mode) -> Critique:
        rubrics = self.plan.rubrics
        system = prompts.system("You look for an error in an answer.", rubrics.critique, rubrics.answer)
        user = (
            f"Task: criticise the answer\n\n{block('question', self._hidden(question.text))}\n"
            f"{block('answer', self._hidden(answer))}"
        )
        attack = await self.caller.ask_message(
            Attack,
            prompts.ATTACK_FORM,
            who,
            f"critique, {mode}",
            rubrics.digest("critique", "answer"),
            system,
            user,
            f"item {question.item}, answerer {answerer}",
        )
        critique = Critique(question.item, answerer, who.name, mode, attack.verdict, attack.notes, attack.suggestions)
        self._write("critique", critique)
        return critique

    async def _attack(self, question: Question, answer: Answer, critic: Participant, aliases: dict[str, str]) -> None:
        critique = await self._critique(question, answer.answerer, answer.text, critic, "evaluator")
        if critique.verdict != "correct":
            named = {critic.name: "Carol", **aliases}
            await self._argue(claim_of_critique(critique), question, answer.text, named)

    # Claims

    def _hidden(self, text: str, aliases: dict[str, str] | None = None) -> str:
        return prompts.redact(text, aliases or {}, self._names)

    async def _argue(
        self, claim: Claim, question: Question, answer: str, aliases: dict[str, str]
    ) -> tuple[Resolution, bool]:
        """Debate a claim and have it judged; return how it ended and whether all judges were heard."""
        material = "\n".join(
            (
                block("question", self._hidden(question.text, aliases)),
                block("answer", self._hidden(answer, aliases)),
                f"{aliases[claim.claimant]} claims, against {aliases[claim.defender]}"
                + (", that the question is ill-posed:" if claim.type == "illposed" else ":"),
                block("claim", self._hidden(claim.text, aliases)),
            )
        )
        transcript = await self._debate(claim, material, aliases)
        judges = self.plan.judges(claim, question.author)
        work = [
            self._guarded(
                question.author, question.topic, claim.answerer, partial(self._judge, claim, material, transcript, who)
            )
            for who in judges
        ]
        verdicts = await asyncio.gather(*work)
        panel = {who.name: verdict for who, verdict in zip(judges, verdicts, strict=True) if verdict}
        found = self.plan.resolve(claim, question.author, panel, self._labels.get(claim.id, ()))
        return found, len(panel) == len(judges)

    async def _debate(self, claim: Claim, material: str, aliases: dict[str, str]) -> str:
        rubrics = self.plan.rubrics
        turns: list[dict[str, Any]] = []
        lines: list[str] = []
        for name in (claim.defender, claim.claimant) * self.plan.settings.debate_rounds:
            side = "defend against" if name == claim.defender else "made"
            system = prompts.system(f"You are {aliases[name]} and {side} the claim below.", rubrics.debate)
            user = (
                f"Task: take your turn in the debate\n\n{material}\n{block('debate', chr(10).join(lines) or '(opens)')}"
            )
            turn = await self.caller.ask_message(
                Turn,
                prompts.TURN_FORM,
                self._participants[name],
                "debate",
                rubrics.digest("debate"),
                system,
                user,
                f"claim {claim.id}",
            )
            turns.append({"speaker": name, "message": turn.message, "concede": turn.concede})
            lines.append(
                f"{aliases[name]}{' (concedes)' if turn.concede else ''}: {self._hidden(turn.message, aliases)}"
            )
            if turn.concede:
                break
        self._write("debate", Debate(claim.id, tuple(turns)))
        return "\n".join(lines) or "(no debate)"

    async def _judge(self, claim: Claim, material: str, transcript: str, who: Participant) -> str:
        rubrics = self.plan.rubrics
        form = prompts.judgment_form(claim.type, VERDICTS[claim.type])
        system = prompts.system("You judge one claim.", rubrics.judgment, rubrics.critique, rubrics.answer)
        user = f"Task: judge the claim\n\n{material}\n{block('debate', transcript)}"
        schema: type[Verdict] = CritiqueVerdict if claim.type == "critique" else IllPosedVerdict
        try:
            found = await self.caller.ask_message(
                schema,
                form,
                who,
                "judgment",
                rubrics.digest("judgment", "critique", "answer"),
                system,
                user,
                f"claim {claim.id}",
            )
        except Fault as fault:
            if fault.reason != "unreadable":
                raise
            judgment = Judgment(claim.id, who.name, "unknown", 0, f"unreadable: {fault.detail}")
        else:
            judgment = Judgment(claim.id, who.name, found.verdict, found.confidence, found.reasoning)
        self._write("judgment", judgment)
        return judgment.verdict
