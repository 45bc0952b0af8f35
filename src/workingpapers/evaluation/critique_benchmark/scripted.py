r"""Scripted models with planted skills, for claims, tests and a first look at the protocol without an endpoint.

Items ask for a power modulo a number; difficulty d is the length of the exponent. A model of skill s gets an item right
with probability :math:`\sigma(s - d)`, else one step of its calculation is false. Judges recompute the one step that a
claim names. An ill-posed item asks for a negative power of a number that has no inverse.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from dataclasses import dataclass
from typing import Literal

from workingpapers.evaluation.critique_benchmark.speakers import Reply, Request

Strategy = Literal["honest", "always claims", "never claims"]
BITS_PER_LOGIT, MIDDLE_BITS = 4, 20


@dataclass(frozen=True)
class Skills:
    """What a scripted model can do.

    Args:
        solve: Solving skill in log-odds.
        level: Mean difficulty of the items that it writes, in log-odds.
        attack: Probability that it finds the false step of a wrong answer.
        false_alarm: Probability that it claims an error in a right answer.
        judge_error: Probability that it judges a step wrongly.
        ill_posed: Share of ill-posed items among those that it writes.
        strategy: How it attacks answers to its items.
    """

    solve: float = 0.0
    level: float = 0.0
    attack: float = 0.8
    false_alarm: float = 0.05
    judge_error: float = 0.05
    ill_posed: float = 0.0
    strategy: Strategy = "honest"


@dataclass(frozen=True)
class Problem:
    """base ** exponent modulo modulus.

    Args:
        base: The base.
        exponent: The exponent; negative asks for the power of the inverse.
        modulus: The modulus.
    """

    base: int
    exponent: int
    modulus: int

    @property
    def ill_posed(self) -> bool:
        """Whether the inverse that is asked for does not exist."""
        return self.exponent < 0 and math.gcd(self.base, self.modulus) > 1

    @property
    def difficulty(self) -> float:
        """Difficulty in log-odds."""
        return (abs(self.exponent).bit_length() - MIDDLE_BITS) / BITS_PER_LOGIT

    def text(self) -> str:
        """Return the question."""
        return f"Compute {self.base}^({self.exponent}) mod {self.modulus}, by squaring, one step a line."


def read_problem(text: str) -> Problem:
    """Return the problem of a question's text.

    Args:
        text: Any text that holds it.
    """
    match = re.search(r"Compute (\d+)\^\((-?\d+)\) mod (\d+)", text)
    assert match, "a scripted model was given a question that no scripted model wrote"
    return Problem(*map(int, match.groups()))


def solve(problem: Problem, wrong: random.Random | None) -> str:
    """Return the steps of a calculation; one of them is false where `wrong` is given.

    Args:
        problem: The problem.
        wrong: Source of the false step, or None for a right calculation.
    """
    bits = f"{abs(problem.exponent):b}"[1:]
    false_step = wrong.randrange(1, len(bits) + 1) if wrong else 0
    value = start = _start(problem)
    lines = [f"step 0: start with {start}"]
    for number, bit in enumerate(bits, 1):
        following = _advance(problem, value, start, bit)
        if number == false_step and wrong:
            following = (following + wrong.randrange(1, problem.modulus)) % problem.modulus
        lines.append(f"step {number}: {value} with bit {bit} gives {following}")
        value = following
    return "\n".join([*lines, f"result {value}"])


def false_steps(problem: Problem, answer: str) -> list[int]:
    """Return the numbers of the false steps of an answer.

    Args:
        problem: The problem.
        answer: Text of :func:`solve`.
    """
    return [number for number in range(len(answer.splitlines()) - 1) if not step_holds(problem, answer, number)]


def step_holds(problem: Problem, answer: str, number: int) -> bool:
    """Return whether one step is true, by recomputing that step alone.

    Args:
        problem: The problem.
        answer: Text of :func:`solve`.
        number: Number of the step.
    """
    lines = answer.splitlines()
    start = int(lines[0].rsplit(" ", 1)[1])
    if number == 0:
        fits = start * problem.base % problem.modulus == 1 if problem.exponent < 0 else start == problem.base
        return fits and not problem.ill_posed
    match = re.fullmatch(r"step \d+: (\d+) with bit (\d) gives (\d+)", lines[number])
    assert match
    value, bit, given = match.groups()
    return _advance(problem, int(value), start, bit) == int(given)


class ScriptedModel:
    """A :class:`.speakers.Speaker` that follows its skills; the same request gets the same reply.

    Args:
        name: Part of the seed of its replies.
        skills: What it can do.
        seed: Seed of the world.
    """

    def __init__(self, name: str, skills: Skills, seed: int = 0) -> None:
        self.name, self.skills, self.seed = name, skills, seed

    async def say(self, request: Request) -> Reply:
        """Return the reply of :meth:`reply` with rough token counts."""
        text = self.reply(request.user)
        return Reply(text, (len(request.system) + len(request.user)) // 4, len(text) // 4)

    def reply(self, prompt: str) -> str:
        """Return the reply to a prompt of the protocol.

        Args:
            prompt: The user prompt.
        """
        rng = random.Random(hashlib.sha256(f"{self.seed}|{self.name}|{prompt}".encode()).digest())
        task = prompt.split("\n", 1)[0].removeprefix("Task: ")
        if task == "write a question":
            return self._write(rng)
        problem = read_problem(_inside(prompt, "question"))
        if task == "answer the question":
            return self._answer(problem, rng, bonus=0.0)
        if task.startswith("check"):
            seen = (
                task == "check an answer of your own"
                and problem.ill_posed
                and rng.random() < _chance(self.skills.solve)
            )
            issues = "The base has no inverse." if seen else ""
            return json.dumps({"verdict": "pass", "ill_posed": seen, "issues": issues, "improvements": ""})
        answer = _inside(prompt, "answer")
        if task == "criticise the answer":
            return self._criticise(problem, answer, rng)
        claim = _inside(prompt, "claim")
        step = re.search(r"step (\d+)", claim)
        true = not step_holds(problem, answer, int(step.group(1))) if step else problem.ill_posed
        if task == "take your turn in the debate":
            defends = "defend against" in prompt or prompt.count("\nAlice") + prompt.count("\nBob") == 0
            concede = rng.random() < 0.5 and true == defends
            return json.dumps({"message": "I see it." if concede else "I maintain it.", "concede": concede})
        upheld = true != (rng.random() < self.skills.judge_error)
        verdict = "claimant_wins" if upheld else "defender_wins_incorrect"
        return json.dumps({"verdict": verdict, "confidence": 4, "reasoning": "I recomputed the step."})

    def _write(self, rng: random.Random) -> str:
        bits = round(MIDDLE_BITS + BITS_PER_LOGIT * rng.gauss(self.skills.level, 0.7))
        size = rng.getrandbits(max(bits, 3)) | 1 << max(bits, 3) - 1
        modulus = rng.randrange(10_000, 100_000)
        base = rng.randrange(2, modulus)
        problem = Problem(base, size, modulus)
        if rng.random() < self.skills.ill_posed:
            factor = rng.choice((2, 3, 5, 7))
            problem = Problem(factor * rng.randrange(2, 1000), -size, factor * rng.randrange(2000, 9000))
        # An author knows how its item was built, so it rarely fails on it.
        return f"[QUESTION]\n{problem.text()}\n[ANSWER]\n{self._answer(problem, rng, bonus=4.0)}"

    def _answer(self, problem: Problem, rng: random.Random, bonus: float) -> str:
        right = rng.random() < _chance(self.skills.solve + bonus - problem.difficulty)
        return solve(problem, None if right else rng)

    def _criticise(self, problem: Problem, answer: str, rng: random.Random) -> str:
        wrong = false_steps(problem, answer)
        found = rng.random() < self.skills.attack
        alarm = rng.random() < self.skills.false_alarm
        anywhere = rng.randrange(len(answer.splitlines()) - 1)
        step = wrong[0] if wrong and found else anywhere if alarm and not wrong else None
        if self.skills.strategy == "always claims" and step is None:
            step = anywhere
        if self.skills.strategy == "never claims":
            step = None
        if step is None:
            return json.dumps({"verdict": "correct", "notes": "", "suggestions": ""})
        return json.dumps({"verdict": "incorrect", "notes": f"step {step} is false", "suggestions": ""})


def _start(problem: Problem) -> int:
    if problem.exponent > 0:
        return problem.base
    # Without an inverse any number is as good as another; step 0 is then false.
    return pow(problem.base, -1, problem.modulus) if not problem.ill_posed else problem.base // 2


def _advance(problem: Problem, value: int, start: int, bit: str) -> int:
    squared = value * value % problem.modulus
    return squared * start % problem.modulus if bit == "1" else squared


def _inside(prompt: str, tag: str) -> str:
    match = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", prompt, re.DOTALL)
    assert match, f"the prompt has no {tag}"
    return match.group(1)


def _chance(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
