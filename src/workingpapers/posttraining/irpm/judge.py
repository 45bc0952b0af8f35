"""A pointwise judge: one call a response, scores that can be compared, and rankings from n calls."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workingpapers.foundations.conversations import Message, Prompt, plain_text
from workingpapers.posttraining.irpm.parsing import Judgement, ScoreParser

Speaker = Callable[[Sequence[Prompt]], Sequence[str]]
"""Takes judge prompts and returns what the judge says to each: a model, or any endpoint behind a function."""

TEMPLATE = """You judge the response of an assistant to a request.

<request>
{prompt}
</request>

<response>
{response}
</response>

Evaluate how helpful, correct, complete and clear the response is. First write a short critique, then a score from 0.0 \
(useless) to 10.0 (perfect). Answer in exactly this form:
<critique>your critique</critique><score>your score</score>"""


@dataclass(frozen=True)
class JudgePrompt:
    """How a request and one response become a prompt of the judge.

    Args:
        template: Text with ``{prompt}`` and ``{response}``.
        chat: Whether the judge takes messages, for models with a chat template.

    Raises:
        ValueError: Where the template lacks a field.
    """

    template: str = TEMPLATE
    chat: bool = False

    def __post_init__(self) -> None:
        for name in ("{prompt}", "{response}"):
            if name not in self.template:
                raise ValueError(f"The template {self.template[:60]!r} has no {name}; both fields are needed.")

    def render(self, context: Prompt, response: Prompt) -> Prompt:
        """Return the judge's prompt.

        Args:
            context: Request, a text or a conversation.
            response: Response, a text or a message.
        """
        fields = {"{prompt}": plain_text(context), "{response}": plain_text(response)}
        # In one pass, so that a request that speaks of {response} is not filled in.
        text = re.sub(r"\{prompt\}|\{response\}", lambda match: fields[match.group()], self.template)
        return [{"role": "user", "content": text}] if self.chat else text


@dataclass(frozen=True)
class Ranking:
    """A ranking of n responses.

    Args:
        order: Indices from best to worst, shape (n,); responses without a score come last.
        ranks: Rank of each response from 1, ties share their mean rank, shape (n,).
        scores: Score of each, NaN where unparsable, shape (n,).
        unparsable: Indices without a score.
    """

    order: tuple[int, ...]
    ranks: np.ndarray
    scores: np.ndarray
    unparsable: tuple[int, ...]


class PointwiseJudge:
    """Scores, compares and ranks responses by judging each alone: n responses cost n calls (times `votes`).

    Args:
        speak: The judge: see :func:`model_speaker`, or a function that asks an endpoint.
        prompt: How prompts are made.
        parser: How scores are read.
        votes: Judgements a response, whose valid scores are averaged; more than one needs a judge that samples.

    Attributes:
        calls: Judgements asked for so far.
    """

    def __init__(
        self, speak: Speaker, *, prompt: JudgePrompt | None = None, parser: ScoreParser | None = None, votes: int = 1
    ) -> None:
        if votes < 1:
            raise ValueError(f"votes is {votes}; one or more are needed.")
        self.speak, self.votes = speak, votes
        self.prompt, self.parser = prompt or JudgePrompt(), parser or ScoreParser()
        self.calls = 0

    def judge(self, contexts: Sequence[Prompt], responses: Sequence[Prompt]) -> list[list[Judgement]]:
        """Return the judgements of each response, `votes` of them.

        Args:
            contexts: Request of each response, n of them.
            responses: n responses.
        """
        asked = [
            self.prompt.render(context, response)
            for context, response in zip(contexts, responses, strict=True)
            for _ in range(self.votes)
        ]
        self.calls += len(asked)
        read = [self.parser.parse(text) for text in self.speak(asked)] if asked else []
        if len(read) != len(asked):
            raise ValueError(f"The judge gave {len(read)} answers to {len(asked)} prompts; one each is needed.")
        return [read[start : start + self.votes] for start in range(0, len(read), self.votes)]

    def score(self, context: Prompt, responses: Sequence[Prompt]) -> np.ndarray:
        """Return the score of each response to one request, NaN where no judgement could be read, shape (n,).

        Args:
            context: The request.
            responses: n responses.
        """
        return mean_scores(self.judge([context] * len(responses), responses))

    def critiques(self, context: Prompt, responses: Sequence[Prompt]) -> list[str]:
        """Return the (first) critique of each response; empty where none could be read.

        Args:
            context: The request.
            responses: n responses.
        """
        return [group[0].critique for group in self.judge([context] * len(responses), responses)]

    def compare(self, context: Prompt, first: Prompt, second: Prompt) -> float:
        """Return 1 where the first response scores higher, 0 where lower, 0.5 where equal, NaN where unparsable.

        Args:
            context: The request.
            first: A response.
            second: Another.
        """
        one, other = self.score(context, [first, second])
        return math.nan if math.isnan(one) or math.isnan(other) else float(pair_outcomes([one], [other])[0])

    def rank(self, context: Prompt, responses: Sequence[Prompt]) -> Ranking:
        """Rank responses to one request by their scores.

        Args:
            context: The request.
            responses: n responses, one or more.
        """
        if not responses:
            raise ValueError("There are no responses to rank; give one or more.")
        return ranking_of(self.score(context, responses))


def ranking_of(scores: np.ndarray) -> Ranking:
    """Return the ranking that scores give.

    Args:
        scores: Higher is better, NaN is last, shape (n,).
    """
    from scipy.stats import rankdata

    worst = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(-worst, kind="stable")
    missing = tuple(np.flatnonzero(np.isnan(scores)).tolist())
    return Ranking(tuple(order.tolist()), rankdata(-worst), scores, missing)


def pair_outcomes(chosen: Any, rejected: Any) -> np.ndarray:
    """Return the benchmark's points of pairs: 1 where chosen scores higher, 0.5 where equal, else 0, shape (n,).

    Args:
        chosen: Scores of chosen responses, NaN where unparsable, which earns 0, shape (n,).
        rejected: Scores of rejected responses, shape (n,).
    """
    first, second = np.asarray(chosen, dtype=float), np.asarray(rejected, dtype=float)
    return np.asarray((first > second) + 0.5 * (first == second))


def mean_scores(judgements: Sequence[Sequence[Judgement]]) -> np.ndarray:
    """Return the mean of the valid scores of each response, NaN where there is none, shape (n,).

    Args:
        judgements: Votes of each response.
    """
    found = []
    for group in judgements:
        scores = [one.score for one in group if one.valid]
        found.append(float(np.mean(scores)) if scores else math.nan)
    return np.array(found)


def model_speaker(
    model: Any, tokenizer: Any, *, most: int = 512, temperature: float = 0.0, batch: int = 16, seed: int = 0
) -> Speaker:
    """Return a causal language model as a judge's voice.

    Args:
        model: A model of transformers.
        tokenizer: Its tokenizer; prompts of messages take its chat template.
        most: Most tokens of a judgement.
        temperature: 0 takes the likeliest tokens.
        batch: Prompts at a time.
        seed: Of the draws.
    """
    import torch

    from workingpapers.foundations.language import sample

    generator = torch.Generator().manual_seed(seed)

    def speak(prompts: Sequence[Prompt]) -> list[str]:
        tokens = [prompt_tokens(tokenizer, prompt) for prompt in prompts]
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))  # little padding
        drawn = sample(model, [tokens[row] for row in order], most=most, temperature=temperature, batch=batch,
                       generator=generator)  # fmt: skip
        said = dict(zip(order, drawn, strict=True))
        return [tokenizer.decode(said[row].tokens, skip_special_tokens=True) for row in range(len(tokens))]

    return speak


def prompt_tokens(tokenizer: Any, prompt: Prompt) -> list[int]:
    """Return a judge's prompt as token numbers.

    Args:
        tokenizer: With a chat template where the prompt is messages.
        prompt: Text or messages.
    """
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    turns: list[Message] = prompt
    return list(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=False))
