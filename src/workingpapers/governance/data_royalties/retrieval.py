"""Attribution at the time of answering: the exact Shapley value of the chunks that an answer was written from."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.games import shapley, tabulate

Utility = Callable[[Sequence[str], str], float]
"""Log-likelihood of an answer given a list of texts; a language model's, or :class:`MixtureUtility`."""

MAX_CHUNKS = 12


def words(text: str) -> list[str]:
    """Return the words of `text` in lower case."""
    return re.findall(r"\w+", text.casefold())


@dataclass(frozen=True)
class MixtureUtility:
    r"""Log-likelihood of an answer under a mixture of its sources and a background, without a neural model.

    .. math::
        v(S)=\sum_{t}\log\Bigl(\lambda_2\,p_S(t\mid t^-)+\lambda_1\,p_S(t)+(1-\lambda_1-\lambda_2)\,p_0(t)\Bigr)

    over the answer's words, with relative frequencies of word pairs and words in the texts of S, zero where S has none,
    and a background :math:`p_0` that is uniform over `vocabulary` words. It knows words, not meaning.

    Args:
        pair: :math:`\lambda_2`.
        single: :math:`\lambda_1`.
        vocabulary: Size of the uniform background.

    References:
        Jelinek and Mercer (1980), for interpolation; Cohen-Wang et al., arXiv 2409.00729, for attribution to context.
    """

    pair: float = 0.5
    single: float = 0.3
    vocabulary: int = 50_000

    def __call__(self, texts: Sequence[str], answer: str) -> float:
        """Return the log-likelihood of `answer` given `texts`, in nats."""
        tokens = [words(text) for text in texts]
        singles = Counter(word for text in tokens for word in text)
        pairs = Counter(pair for text in tokens for pair in pairwise(text))
        starts = Counter(first for text in tokens for first in text[:-1])
        total, value, before = sum(singles.values()), 0.0, None
        for word in words(answer):
            p_single = singles[word] / total if total else 0.0
            p_pair = pairs[before, word] / starts[before] if before is not None and starts[before] else p_single
            rest = 1.0 - self.pair - self.single
            value += math.log(self.pair * p_pair + self.single * p_single + rest / self.vocabulary)
            before = word
        return value


def attribute_context(
    chunks: Sequence[tuple[str, str]], answer: str, utility: Utility | None = None
) -> tuple[dict[str, float], float]:
    """Return work -> Shapley value of its chunks for one answer, and what the answer is worth without any.

    Args:
        chunks: Work id and text of every chunk in the context; a work's chunks add up.
        answer: What was answered.
        utility: Log-likelihood of an answer given texts.

    Returns:
        Nats by work, summing to ``v(all) - v(none)``, and ``v(none)``.

    Raises:
        InputError: There are more than :data:`MAX_CHUNKS` chunks, or a value is not finite.
    """
    if len(chunks) > MAX_CHUNKS:
        raise InputError(
            f"There are {len(chunks)} chunks; at most {MAX_CHUNKS} can be attributed exactly, pass the best."
        )
    value = utility or MixtureUtility()

    def game(mask: int) -> float:
        return value([text for index, (_, text) in enumerate(chunks) if mask >> index & 1], answer)

    values: NDArray[np.float64] = tabulate(game, len(chunks))
    if not np.all(np.isfinite(values)):
        raise InputError("The utility of a set of chunks is not a finite number; smooth the model's probabilities.")
    found: dict[str, float] = {}
    for (work, _), gain in zip(chunks, shapley(values) if chunks else (), strict=True):
        found[work] = found.get(work, 0.0) + float(gain)
    return found, float(values[0])


def attribute_contexts(
    records: Sequence[Mapping[str, object]], utility: Utility | None = None
) -> list[tuple[str, dict[str, float]]]:
    """Attribute many answers.

    Args:
        records: Each with ``event_id``, ``answer`` and ``chunks``, a list of ``{"work": ..., "text": ...}``.
        utility: As in :func:`attribute_context`.

    Raises:
        InputError: A record lacks a field; the message names it.
    """
    found = []
    for number, record in enumerate(records, start=1):
        try:
            given = record["chunks"]
            if not isinstance(given, list):
                raise TypeError
            chunks = [(str(item["work"]), str(item["text"])) for item in given]
            event_id, answer = str(record["event_id"]), str(record["answer"])
        except (KeyError, TypeError):
            raise InputError(
                f"Record {number} needs event_id, answer and chunks, a list of objects with work and text."
            ) from None
        found.append((event_id, attribute_context(chunks, answer, utility)[0]))
    return found
