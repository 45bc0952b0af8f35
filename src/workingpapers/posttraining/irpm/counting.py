"""A small world with a known quality: a key digit, responses of four digits, and how many of them equal the key.

A request is the key, ``7``; a response is ``7173``, of quality 2. A small model is taught the *form* of a judgement,
``2,8``: critique (the number of errors, right in `skill` of the cases) and score, which is drawn at random, so that
nothing about scores is taught.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workingpapers.foundations.tinylm import Recipe
from workingpapers.foundations.tinylm.tasks import Example, Task
from workingpapers.posttraining.irpm.judge import JudgePrompt
from workingpapers.posttraining.irpm.parsing import ScoreParser

PLACES = 4
PROMPT = JudgePrompt("{prompt}:{response}=")
PATTERN = r"^(?P<critique>\d),(?P<score>\d)$"
PARSER = ScoreParser(PATTERN)
LETTERS = "AB"


def quality(key: str, response: str) -> int:
    """Return how many places of the response equal the key.

    Args:
        key: A digit.
        response: Digits.
    """
    return response.count(key)


def draw_response(key: str, right: int, rng: np.random.Generator) -> str:
    """Return a random response of a given quality.

    Args:
        key: A digit.
        right: Its quality, 0 to 4.
        rng: Source of the draws.
    """
    others = [digit for digit in "0123456789" if digit != key]
    places = [key] * right + [others[int(number)] for number in rng.integers(9, size=PLACES - right)]
    return "".join(places[int(place)] for place in rng.permutation(PLACES))


def counting_preferences(count: int, rng: np.random.Generator, *, flip: float = 0.0) -> list[dict[str, str]]:
    """Return preference records of two responses of different quality, qualities being equally likely.

    Args:
        count: Records, n.
        rng: Source of the draws.
        flip: Probability with which the worse response is called the chosen one.

    Returns:
        n records with prompt, chosen and rejected.
    """
    found = []
    for _ in range(count):
        key = str(int(rng.integers(10)))
        low, high = sorted(int(value) for value in rng.choice(PLACES + 1, size=2, replace=False))
        sides = [draw_response(key, high, rng), draw_response(key, low, rng)]
        if rng.random() < flip:
            sides.reverse()
        found.append({"prompt": key, "chosen": sides[0], "rejected": sides[1]})
    return found


@dataclass(frozen=True)
class CountingJudge(Task):
    """Judge one response: ``7:7173=`` is answered by errors and a random score, ``2,8``.

    Args:
        skill: Probability of a right number of errors.
    """

    skill: float = 0.8
    name: ClassVar[str] = "counting_judge"
    longest: ClassVar[int] = 3  # type: ignore[misc]

    def example(self, rng: np.random.Generator) -> Example:
        """Return a judge's prompt with a judgement in the right form."""
        key = str(int(rng.integers(10)))
        response = draw_response(key, int(rng.integers(PLACES + 1)), rng)
        errors = _errors(key, response, self.skill, rng)
        return Example(f"{key}:{response}=", f"{errors},{int(rng.integers(10))}")

    def answer(self, prompt: str) -> str:
        """Return the right critique with a score of two and a half points a right place, rounded down."""
        key, response = prompt.rstrip("=").split(":")
        right = quality(key, response)
        return f"{PLACES - right},{min(9, 5 * right // 2)}"

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 for a right number of errors."""
        return float(completion.split(",")[0] == self.answer(prompt)[0])


@dataclass(frozen=True)
class PairwiseJudge(Task):
    """Judge two responses: ``7:7173|7273=`` is answered by the errors of both and a random letter, ``23>B``.

    Args:
        skill: Probability of a right number of errors.
    """

    skill: float = 0.8
    name: ClassVar[str] = "pairwise_judge"
    longest: ClassVar[int] = 4  # type: ignore[misc]

    def example(self, rng: np.random.Generator) -> Example:
        """Return a judge's prompt with a judgement in the right form."""
        key = str(int(rng.integers(10)))
        responses = [draw_response(key, int(rng.integers(PLACES + 1)), rng) for _ in range(2)]
        errors = "".join(str(_errors(key, response, self.skill, rng)) for response in responses)
        return Example(pairwise_prompt(key, *responses), f"{errors}>{LETTERS[int(rng.integers(2))]}")

    def answer(self, prompt: str) -> str:
        """Return the right errors and the letter of the better response, A where they are equal."""
        key, rest = prompt.rstrip("=").split(":")
        rights = [quality(key, response) for response in rest.split("|")]
        return "".join(str(PLACES - right) for right in rights) + ">" + LETTERS[int(rights[1] > rights[0])]

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 for a judgement that is right throughout."""
        return float(completion == self.answer(prompt))


def pairwise_prompt(key: str, first: str, second: str) -> str:
    """Return the prompt of the judge of two responses.

    Args:
        key: A digit.
        first: Response A.
        second: Response B.
    """
    return f"{key}:{first}|{second}="


def _errors(key: str, response: str, skill: float, rng: np.random.Generator) -> int:
    right = PLACES - quality(key, response)
    return right if rng.random() < skill else int(rng.integers(PLACES + 1))


TINY_JUDGE = Recipe(CountingJudge(), width=48, steps=600, learning_rate=2e-3, positions=32)
