"""Preferences from a judge: both orders of every pair, flips as ties, malformed replies retried, drops counted."""

from __future__ import annotations

import itertools
import json
import re
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent

Judge = Callable[[str, str, str, str], str]
"""``judge(prompt, first, second, persona) -> reply``; the reply names A (the first), B (the second) or a tie."""

VERDICTS = {"a": 1.0, "first": 1.0, "1": 1.0, "b": 0.0, "second": 0.0, "2": 0.0, "tie": 0.5, "c": 0.5, "equal": 0.5}


@dataclass(frozen=True)
class Collected:
    """Judgements of all pairs of one prompt.

    Args:
        votes: Each persona's votes, NaN where dropped, shape (personas, n, n).
        asked: Replies asked for, retries included.
        retried: Replies that were malformed or did not come.
        dropped: Pair judgements given up after the retries.
        flips: Pair judgements whose two orders contradict each other: counted as ties.
        first_share: Share of decided replies that named the response shown first; one half without position bias.
    """

    votes: np.ndarray
    asked: int
    retried: int
    dropped: int
    flips: int
    first_share: float

    @property
    def wins(self) -> np.ndarray:
        """Wins summed over personas, shape (n, n)."""
        total = np.nansum(self.votes, axis=0)
        np.fill_diagonal(total, 0.0)
        return np.asarray(total)


def collect_preferences(
    judge: Judge,
    prompt: str,
    responses: Sequence[str],
    *,
    personas: Sequence[str] = ("",),
    orders: Literal["both", "first"] = "both",
    retries: int = 2,
    threads: int = 1,
    progress: Progress = silent,
) -> Collected:
    """Ask a judge about every pair of responses, once a persona and order.

    The population is the personas (or models): asking one deterministic judge again would measure its noise, not how
    much people differ.

    Args:
        judge: Called as ``judge(prompt, first, second, persona)``. A reply that :func:`parse_verdict` cannot read, or
            an ``OSError`` (a network failure), is retried and then dropped; other exceptions are bugs and pass through.
        prompt: What the responses answer.
        responses: The texts, n >= 2.
        personas: Who judges: passed to the judge, one panel member each.
        orders: ``"both"`` asks each pair in both orders and counts contradicting verdicts as a tie; ``"first"`` asks
            once, which leaves position bias in the votes.
        retries: Further attempts after a malformed reply.
        threads: Judges asked at the same time; the judge must then be safe to call from several threads.
        progress: Called after each pair.

    Returns:
        The votes with counts of what went wrong. A pair with one order missing is dropped: half a judgement would
        bring the position bias back.

    Raises:
        InputError: Fewer than two responses, no persona, or not one usable reply to the first pair.
    """
    if len(responses) < 2 or not personas:
        raise InputError(
            f"There are {len(responses)} responses and {len(personas)} personas; give two responses and one persona "
            "or more."
        )
    tasks = list(itertools.product(range(len(personas)), itertools.combinations(range(len(responses)), 2)))
    swaps = (False, True) if orders == "both" else (False,)

    def ask(task: tuple[int, tuple[int, int]]) -> list[tuple[float | None, int]]:
        persona, (i, j) = task
        found = []
        for swapped in swaps:
            first, second = (j, i) if swapped else (i, j)
            found.append(_attempt(judge, prompt, responses[first], responses[second], personas[persona], retries))
        return found

    votes = np.full((len(personas), len(responses), len(responses)), np.nan)
    votes[:, np.arange(len(responses)), np.arange(len(responses))] = 0.5
    asked = retried = dropped = flips = 0
    shown_first: list[float] = []

    def record(task: tuple[int, tuple[int, int]], replies: list[tuple[float | None, int]]) -> None:
        nonlocal asked, retried, dropped, flips
        persona, (i, j) = task
        asked += sum(attempts for _, attempts in replies)
        retried += sum(attempts - 1 for _, attempts in replies)
        shown_first.extend(verdict for verdict, _ in replies if verdict in (0.0, 1.0))
        seen = [verdict for verdict, _ in replies]
        if any(verdict is None for verdict in seen):
            dropped += 1
            return
        # In the swapped order the first shown is j.
        for_i = [verdict if k == 0 else 1 - verdict for k, verdict in enumerate(seen) if verdict is not None]
        flips += set(for_i) == {0.0, 1.0}
        # One clear verdict beside a tie leaves three quarters; a contradiction leaves a tie.
        votes[persona, i, j] = float(np.mean(for_i))
        votes[persona, j, i] = 1 - votes[persona, i, j]

    opening = ask(tasks[0])
    if all(verdict is None for verdict, _ in opening):
        raise InputError("The judge gave no usable reply to the first pair; check the endpoint and the reply format.")
    record(tasks[0], opening)
    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        for number, (task, replies) in enumerate(zip(tasks[1:], pool.map(ask, tasks[1:]), strict=True), start=2):
            record(task, replies)
            progress(number / len(tasks), f"{number} of {len(tasks)} pairs judged")
    first_share = float(np.mean(shown_first)) if shown_first else float("nan")
    return Collected(votes, asked, retried, dropped, flips, first_share)


def parse_verdict(reply: str) -> float | None:
    """Return 1 for the first, 0 for the second, 1/2 for a tie, None for anything else.

    Read are a bare verdict (A, B, C or tie, first, second; case and punctuation do not matter), or the last one in
    double brackets, as in ``[[A]]``.

    Args:
        reply: Text of the judge.
    """
    bracketed = re.findall(r"\[\[\s*(\w+)\s*\]\]", reply)
    word = bracketed[-1] if bracketed else reply.strip().strip(".,:;!*'\"()[] \n")
    return VERDICTS.get(word.lower())


def chat_judge(url: str, model: str, *, key: str = "", timeout: float = 60.0) -> Judge:
    """Return a judge that asks a chat endpoint of the common kind (``/v1/chat/completions``).

    Args:
        url: Address of the endpoint up to and including ``/v1``.
        model: Name of the model.
        key: Bearer token; none where empty.
        timeout: Seconds to wait for a reply.

    Returns:
        A judge for :func:`collect_preferences`: the persona is the system message; temperature 0. Replies that are not
        of the endpoint's format count as malformed.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"The address {url!r} is no http address; give the endpoint up to /v1.")

    def judge(prompt: str, first: str, second: str, persona: str) -> str:
        question = (
            f"Which response to the prompt do you prefer? Answer with one letter: A, B, or C if they are equal.\n\n"
            f"Prompt:\n{prompt}\n\nResponse A:\n{first}\n\nResponse B:\n{second}"
        )
        system = [{"role": "system", "content": persona}] if persona else []
        body = {"model": model, "temperature": 0, "messages": [*system, {"role": "user", "content": question}]}
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        request = urllib.request.Request(
            f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=timeout) as stream:
            try:
                return str(json.load(stream)["choices"][0]["message"]["content"])
            except (ValueError, KeyError, IndexError, TypeError):
                return ""

    return judge


def _attempt(
    judge: Judge, prompt: str, first: str, second: str, persona: str, retries: int
) -> tuple[float | None, int]:
    """Return the verdict, or None after the retries, and how often the judge was asked."""
    for attempt in range(1, retries + 2):
        try:
            verdict = parse_verdict(judge(prompt, first, second, persona))
        except OSError:
            verdict = None
        if verdict is not None:
            return verdict, attempt
    return None, retries + 1
