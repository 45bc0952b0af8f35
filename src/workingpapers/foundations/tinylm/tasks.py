"""Tasks whose answers can be checked: what a model is taught may be wrong on purpose, the checker never is.

A task draws prompts with the answers that a model is to be taught, and scores any answer. Prompts and answers are
strings of single-character tokens, without beginning and end marks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from workingpapers.foundations.errors import InputError

TRIES = 1000


@dataclass(frozen=True)
class Example:
    """A prompt with an answer to be taught.

    Args:
        prompt: What the model is given.
        completion: What it is taught to go on with.
    """

    prompt: str
    completion: str


class Task(ABC):
    """A family of prompts with a checker.

    Attributes:
        name: Short name.
        longest: Most characters of a taught answer.
    """

    name: ClassVar[str]
    longest: int

    @abstractmethod
    def example(self, rng: np.random.Generator) -> Example:
        """Return one prompt with an answer to be taught."""

    @abstractmethod
    def score(self, prompt: str, completion: str) -> float:
        """Return 1 for a right answer and 0 for a wrong one."""

    @abstractmethod
    def answer(self, prompt: str) -> str:
        """Return a right answer."""

    def draw(self, count: int, rng: np.random.Generator) -> list[Example]:
        """Return `count` examples."""
        return [self.example(rng) for _ in range(count)]


@dataclass(frozen=True)
class Sorting(Task):
    """Sort digits: ``381402=`` is answered by ``012348``.

    Args:
        digits: How many.
        swap: Probability with which a teacher who scans the sorted digits swaps a neighbouring pair (d, d + 1).
        drop: Probability with which the teacher leaves out one digit.
    """

    digits: int = 6
    swap: float = 0.0
    drop: float = 0.0
    name: ClassVar[str] = "sorting"

    def __post_init__(self) -> None:
        if self.digits < 1 or not (0 <= self.swap <= 1 and 0 <= self.drop <= 1):
            raise InputError(f"Sorting needs a digit or more and probabilities in [0, 1], not {self}.")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Most characters of an answer."""
        return self.digits

    def example(self, rng: np.random.Generator) -> Example:
        """Return a prompt with the teacher's answer, wrong as often as `swap` and `drop` make it."""
        values = rng.integers(10, size=self.digits)
        taught = sorted(values.tolist())
        place = 0
        while place + 1 < len(taught):
            if taught[place + 1] == taught[place] + 1 and rng.random() < self.swap:
                taught[place], taught[place + 1] = taught[place + 1], taught[place]
                place += 1
            place += 1
        if rng.random() < self.drop:
            del taught[int(rng.integers(len(taught)))]
        return Example("".join(map(str, values)) + "=", "".join(map(str, taught)))

    def answer(self, prompt: str) -> str:
        """Return the sorted digits."""
        return "".join(sorted(prompt.rstrip("=")))

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 when the digits are all there, in order."""
        return float(completion == self.answer(prompt))


@dataclass(frozen=True)
class PointerChasing(Task):
    """Follow pointers: ``310524:2>5=`` starts at 2 and asks for five hops in the table f(0) f(1) ... of 310524.

    An answer may show the states that it passes, may check them again after an R, and ends with A and the last state:
    ``03542A2``. A teacher answers directly with probability `direct`, and else shows the chain and checks it no, one or
    two times. Each hop of a chain is a random state with probability `slip`, in a check with probability `check_slip`;
    the last chain gives the answer, so that checks make answers longer and worse.

    Args:
        states: Length of the table, at most 10.
        hops: Numbers of hops, equally likely.
        direct: Share of answers without a chain; the teacher guesses beyond one hop.
        checks: Probabilities of no, one and two checks.
        slip: Probability of a wrong hop in the first chain.
        check_slip: Probability of a wrong hop in a check.
    """

    states: int = 6
    hops: tuple[int, ...] = (1, 2, 5)
    direct: float = 0.0
    checks: tuple[float, ...] = (1.0,)
    slip: float = 0.0
    check_slip: float = 0.0
    name: ClassVar[str] = "pointer_chasing"

    def __post_init__(self) -> None:
        if not 2 <= self.states <= 10 or not self.hops or not all(1 <= hop <= 9 for hop in self.hops):
            raise InputError(f"PointerChasing needs 2 to 10 states and 1 to 9 hops, not {self.states} and {self.hops}.")
        if abs(sum(self.checks) - 1) > 1e-9 or min(self.checks) < 0:
            raise InputError(f"The probabilities of checks must sum to one, not {self.checks}.")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Most characters of an answer."""
        return len(self.checks) * (max(self.hops) + 1) + 1

    def example(self, rng: np.random.Generator) -> Example:
        """Return a prompt with the teacher's answer."""
        table = rng.integers(self.states, size=self.states).tolist()
        start, hops = int(rng.integers(self.states)), int(rng.choice(self.hops))
        prompt = "".join(map(str, table)) + f":{start}>{hops}="
        if rng.random() < self.direct:
            guess = table[start] if hops == 1 else int(rng.integers(self.states))
            return Example(prompt, f"A{guess}")
        rounds = 1 + int(rng.choice(len(self.checks), p=self.checks))
        chains = [self._chain(table, start, hops, self.check_slip if number else self.slip, rng)
                  for number in range(rounds)]  # fmt: skip
        shown = "R".join("".join(map(str, chain)) for chain in chains)
        return Example(prompt, f"{shown}A{chains[-1][-1]}")

    def _chain(self, table: list[int], start: int, hops: int, slip: float, rng: np.random.Generator) -> list[int]:
        state, found = start, []
        for _ in range(hops):
            state = int(rng.integers(self.states)) if rng.random() < slip else table[state]
            found.append(state)
        return found

    def answer(self, prompt: str) -> str:
        """Return the chain and the last state."""
        table, rest = prompt.split(":")
        start, hops = rest.rstrip("=").split(">")
        chain = self._chain(list(map(int, table)), int(start), int(hops), 0.0, np.random.default_rng(0))
        return "".join(map(str, chain)) + f"A{chain[-1]}"

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 when what stands after the last A is the last state."""
        _, mark, last = completion.rpartition("A")
        return float(bool(mark) and last == self.answer(prompt)[-1])


@dataclass(frozen=True)
class Addition(Task):
    """Add two numbers: ``+128,073=`` is answered by ``1>0>2:201`` or, without steps, by ``:201``.

    Steps are the digits of the sum from the right; the answer stands after the colon.

    Args:
        digits: Digits of each number.
        steps: Share of the digits that are shown as steps, from none (0) to all (1).
        slip: Probability with which the teacher gets a step wrong, and the answer with it.
    """

    digits: int = 3
    steps: float = 1.0
    slip: float = 0.0
    name: ClassVar[str] = "addition"

    def __post_init__(self) -> None:
        if self.digits < 1 or not (0 <= self.steps <= 1 and 0 <= self.slip <= 1):
            raise InputError(f"Addition needs a digit or more and shares in [0, 1], not {self}.")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Most characters of an answer."""
        return 3 * (self.digits + 1) + 1

    def example(self, rng: np.random.Generator) -> Example:
        """Return a prompt with the teacher's answer."""
        first, second = (int(value) for value in rng.integers(10**self.digits, size=2))
        total = f"{first + second:0{self.digits}d}"
        if rng.random() < self.slip:
            place = int(rng.integers(len(total)))
            wrong = (int(total[place]) + int(rng.integers(1, 10))) % 10
            total = total[:place] + str(wrong) + total[place + 1 :]
        return Example(f"+{first:0{self.digits}d},{second:0{self.digits}d}=", self._shown(total))

    def _shown(self, total: str) -> str:
        count = round(self.steps * len(total))
        return ">".join(total[::-1][:count]) + ":" + total

    def answer(self, prompt: str) -> str:
        """Return the steps and the sum."""
        first, second = prompt[1:].rstrip("=").split(",")
        return self._shown(f"{int(first) + int(second):0{self.digits}d}")

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 when what stands after the last colon is the sum."""
        _, mark, total = completion.rpartition(":")
        return float(bool(mark) and total == self.answer(prompt).rpartition(":")[2])


@dataclass(frozen=True)
class StringEdit(Task):
    """Edit a word: ``r:abcd=`` reverses, ``d:abcd=`` doubles each letter, ``u:abcd=`` writes capitals.

    Args:
        letters: Length of the word.
        edits: Which edits occur.
    """

    letters: int = 5
    edits: str = "rdu"
    name: ClassVar[str] = "string_edit"

    def __post_init__(self) -> None:
        if self.letters < 1 or not self.edits or set(self.edits) - set("rdu"):
            raise InputError(f"StringEdit needs a letter or more and edits among r, d, u, not {self}.")

    @property
    def longest(self) -> int:  # type: ignore[override]
        """Most characters of an answer."""
        return 2 * self.letters

    def example(self, rng: np.random.Generator) -> Example:
        """Return a prompt with the right answer."""
        word = "".join(chr(97 + int(number)) for number in rng.integers(26, size=self.letters))
        prompt = f"{self.edits[int(rng.integers(len(self.edits)))]}:{word}="
        return Example(prompt, self.answer(prompt))

    def answer(self, prompt: str) -> str:
        """Return the edited word."""
        edit, word = prompt[0], prompt[2:].rstrip("=")
        return {"r": word[::-1], "d": "".join(2 * letter for letter in word), "u": word.upper()}[edit]

    def score(self, prompt: str, completion: str) -> float:
        """Return 1 for the edited word."""
        return float(completion == self.answer(prompt))


def planted_preferences(
    task: Task, teacher: Task, count: int, rng: np.random.Generator, *, flip: float = 0.0
) -> list[dict[str, str]]:
    """Return preference records of right over wrong answers, in the form of the Hugging Face preference format.

    Args:
        task: Gives the right answers.
        teacher: The same task with slips, whose wrong answers are rejected.
        count: Records.
        rng: Draws prompts and answers.
        flip: Probability with which a label is turned round.

    Raises:
        InputError: When the teacher is never wrong.
    """
    found: list[dict[str, str]] = []
    for _ in range(TRIES * count):
        example = teacher.example(rng)
        if teacher.score(example.prompt, example.completion):
            continue
        pair = [task.answer(example.prompt), example.completion]
        if rng.random() < flip:
            pair.reverse()
        found.append({"prompt": example.prompt, "chosen": pair[0], "rejected": pair[1]})
        if len(found) == count:
            return found
    raise InputError(f"{teacher} gives no wrong answers to prefer others to; let it slip.")
