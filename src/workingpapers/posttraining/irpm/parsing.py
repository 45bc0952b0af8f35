"""Reading a judgement: the critique and the score in a judge's text, or that there is none."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

TAGS = r"<critique>(?P<critique>.*?)</critique>\s*<score>\s*(?P<score>\d+(?:\.\d+)?)\s*</score>"


@dataclass(frozen=True)
class Judgement:
    """What a judge said about one response.

    Args:
        score: The score, or NaN where none could be read.
        critique: The critique, empty where none could be read.
        text: All that the judge said.
        problem: Why no score could be read; empty where one was.
    """

    score: float
    critique: str
    text: str
    problem: str = ""

    @property
    def valid(self) -> bool:
        """Whether a score was read."""
        return not self.problem


@dataclass(frozen=True)
class ScoreParser:
    """Finds critique and score; what does not fit exactly is unparsable and never gets a score.

    Args:
        pattern: Regular expression with a group ``score`` and, where wanted, a group ``critique``.
        low: Least score.
        high: Largest score.

    Raises:
        ValueError: For a pattern without such a group, or an empty range.
    """

    pattern: str = TAGS
    low: float = 0.0
    high: float = 10.0
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low} and high {self.high}; low must be less.")
        try:
            compiled = re.compile(self.pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"The pattern {self.pattern!r} is no regular expression ({error}).") from None
        if "score" not in compiled.groupindex:
            raise ValueError(f"The pattern {self.pattern!r} has no group (?P<score>...).")
        object.__setattr__(self, "_compiled", compiled)

    def parse(self, text: str) -> Judgement:
        """Return the judgement in a text.

        Args:
            text: What the judge said. Two verdicts are as bad as none, for nobody knows which one is meant.
        """
        found = list(self._compiled.finditer(text))
        if not found:
            return Judgement(math.nan, "", text, "no critique with a score")
        if len(found) > 1:
            return Judgement(math.nan, "", text, f"{len(found)} scores")
        groups = found[0].groupdict()
        try:
            score = float(groups["score"])
        except (TypeError, ValueError):
            return Judgement(math.nan, "", text, f"the score {groups['score']!r} is no number")
        if not self.low <= score <= self.high:
            return Judgement(math.nan, "", text, f"the score {score:g} is not in [{self.low:g}, {self.high:g}]")
        return Judgement(score, (groups.get("critique") or "").strip(), text)
