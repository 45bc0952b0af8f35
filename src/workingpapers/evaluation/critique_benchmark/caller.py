"""Asking models: cached by content, retried, counted against a budget, and never guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from workingpapers.evaluation.critique_benchmark.messages import Message, Unreadable, read_message
from workingpapers.evaluation.critique_benchmark.speakers import Fault, Participant, Reply, Request
from workingpapers.evaluation.critique_benchmark.store import EventStore, fingerprint

Schema = TypeVar("Schema", bound=Message)
Read = TypeVar("Read")


@dataclass(frozen=True)
class Effort:
    """How much is spent on calls.

    Args:
        budget: Most tokens of new calls; none is started once they are spent, those under way finish. None: no limit.
        retries: Times that a failed call is made again.
        backoff: Seconds before the first retry; doubled each time, at most 60.
        seconds: Most seconds for one call.
        connections: Most calls at a time to one model.
    """

    budget: int | None = None
    retries: int = 4
    backoff: float = 2.0
    seconds: float = 600.0
    connections: int = 8


class BudgetSpent(Exception):
    """The budget does not allow another call."""


class Caller:
    """Asks on behalf of the protocol.

    Args:
        store: Where paid calls are kept and found again.
        effort: Limits.
        seed: Part of every request.
        max_tokens: Most tokens of a reply.
    """

    def __init__(self, store: EventStore, effort: Effort, seed: int, max_tokens: int) -> None:
        self.store, self.effort, self.seed, self.max_tokens = store, effort, seed, max_tokens
        self.tokens = self.calls = self.reused = 0
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def ask(self, who: Participant, stage: str, rubric: str, system: str, user: str, about: str) -> str:
        """Return the reply to a prompt, from the store where it was paid for before.

        Args:
            who: Whom to ask.
            stage: Stage of the protocol, part of the key.
            rubric: Hash of the rubric, part of the key.
            system: System prompt.
            user: User prompt.
            about: What this call is about (item and answerer, claim, attempt), part of the key: two steps of the
                protocol never share a reply, also where their prompts agree.

        Raises:
            Fault: The endpoint gave nothing usable, also after retries.
            BudgetSpent: The budget is used up.
        """
        asked = {
            "stage": stage,
            "model": who.name,
            "prompt": fingerprint([system, user]),
            "rubric": rubric,
            "about": about,
            "seed": self.seed,
            "temperature": who.temperature,
            "max_tokens": self.max_tokens,
            "extra": dict(who.extra),
        }
        key = fingerprint(asked)
        paid = self.store.call(key)
        if paid is not None:
            self.reused += 1
            return str(paid["text"])
        slot = self._slots.setdefault(who.name, asyncio.Semaphore(self.effort.connections))
        async with slot:
            reply = await self._try(who, stage, Request(system, user, who.temperature, self.max_tokens, self.seed))
        counts = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        self.store.append("call", {"key": key, **asked, "text": reply.text, **counts})
        return reply.text

    async def ask_for(
        self,
        read: Callable[[str], Read],
        form: str,
        who: Participant,
        stage: str,
        rubric: str,
        system: str,
        user: str,
        about: str,
    ) -> Read:
        """Return what `read` finds in the reply; an unreadable reply is asked for once more, then given up.

        Args:
            read: Reads a text or raises :class:`.messages.Unreadable`.
            form: What the reply must look like, repeated in the second request.
            who: See :meth:`ask`.
            stage: See :meth:`ask`.
            rubric: See :meth:`ask`.
            system: See :meth:`ask`.
            user: See :meth:`ask`.
            about: See :meth:`ask`.

        Raises:
            Fault: See :meth:`ask`; also with the reason "unreadable".
        """
        text = await self.ask(who, stage, rubric, system, user, about)
        try:
            return read(text)
        except Unreadable as error:
            again = (
                f"{user}\n\nAn earlier reply to this was:\n<reply>\n{text}\n</reply>\nIt cannot be read: {error}. "
                f"Reply once more, in exactly this form and with nothing else:\n{form}"
            )
        text = await self.ask(who, f"{stage}, repair", rubric, system, again, about)
        try:
            return read(text)
        except Unreadable as error:
            fault = Fault("unreadable", str(error))
            fault.stage, fault.model = stage, who.name
            raise fault from None

    async def ask_message(
        self,
        schema: type[Schema],
        form: str,
        who: Participant,
        stage: str,
        rubric: str,
        system: str,
        user: str,
        about: str,
    ) -> Schema:
        """Return the reply as a message of `schema`; see :meth:`ask_for`."""
        return await self.ask_for(
            lambda text: read_message(text, schema), form, who, stage, rubric, system, f"{user}\n\n{form}", about
        )

    async def _try(self, who: Participant, stage: str, request: Request) -> Reply:
        for trial in range(self.effort.retries + 1):
            if self.effort.budget is not None and self.tokens >= self.effort.budget:
                raise BudgetSpent
            self.calls += 1
            try:
                reply = await asyncio.wait_for(who.speaker.say(request), self.effort.seconds)
            except TimeoutError:
                fault = Fault("timeout", f"no reply in {self.effort.seconds:g} s", retry=True)
            except Fault as error:
                fault = error
            else:
                self.tokens += reply.input_tokens + reply.output_tokens
                return reply
            if not fault.retry or trial == self.effort.retries:
                fault.stage, fault.model = stage, who.name
                raise fault
            await asyncio.sleep(min(60.0, self.effort.backoff * 2**trial))
        raise AssertionError("unreachable")
