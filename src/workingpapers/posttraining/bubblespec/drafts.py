"""Drafts: what a sequence may look like, kept by prompt and sample, and followed token by token with a way back in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from workingpapers.foundations.errors import InputError

LONGEST_MATCH = 8  # tokens at the end of a sequence that are looked for in a draft
SHORTEST_MATCH = 2


@dataclass(frozen=True)
class Draft:
    """A proposal for a completion.

    Args:
        tokens: Token numbers; an end mark may be the last.
        version: Update after which the policy that wrote it was current.
        law: Probabilities that each token was drawn from, shape (length, vocabulary); needed by rejection alone.
        chosen: Whether it was picked by its content (the first to finish, the best of several): then it is no sample of
            `law` any more.
    """

    tokens: tuple[int, ...]
    version: int = 0
    law: Tensor | None = None
    chosen: bool = False


class DraftStore:
    """Drafts by prompt and sample. They are proposals: nothing here reaches the learner.

    Token numbers are kept, not caches of keys and values, which are void once the weights have changed.
    """

    def __init__(self) -> None:
        self._drafts: dict[Hashable, dict[int, Draft]] = defaultdict(dict)

    def __len__(self) -> int:
        return sum(len(samples) for samples in self._drafts.values())

    def put(self, prompt: Hashable, sample: int, draft: Draft) -> None:
        """Keep a draft in place of the one that was there.

        Args:
            prompt: Identity of the prompt.
            sample: Number of the sample.
            draft: The draft.
        """
        self._drafts[prompt][sample] = draft

    def own(self, prompt: Hashable, sample: int) -> Draft | None:
        """Return the draft of this sample, if there is one.

        Args:
            prompt: Identity of the prompt.
            sample: Number of the sample.
        """
        return self._drafts.get(prompt, {}).get(sample)

    def pool(self, prompt: Hashable, sample: int) -> list[Draft]:
        """Return all drafts of the prompt that hold a token, the sample's own first.

        Args:
            prompt: Identity of the prompt.
            sample: Number of the sample.
        """
        samples = self._drafts.get(prompt, {})
        order = sorted(samples, key=lambda number: (number != sample, number))
        return [samples[number] for number in order if samples[number].tokens]

    def drop_before(self, version: int) -> int:
        """Forget drafts of policies older than an update, for memory's sake alone; return how many.

        Args:
            version: First update whose drafts stay.
        """
        before = len(self)
        for prompt in list(self._drafts):
            kept = {number: one for number, one in self._drafts[prompt].items() if one.version >= version}
            if kept:
                self._drafts[prompt] = kept
            else:
                del self._drafts[prompt]
        return before - len(self)


class Follower:
    """Follows a sequence as it is written and proposes what comes next from a pool of drafts.

    It goes along the first draft of the pool; where the sequence leaves it, it looks for the longest end of the
    sequence (two to eight tokens) anywhere in the pool and goes on from there.

    Args:
        pool: Drafts' tokens, the sequence's own first.
        resync: Whether to look for a way back in.
    """

    def __init__(self, pool: Iterable[Sequence[int]], *, resync: bool = True) -> None:
        self._pool = [tuple(tokens) for tokens in pool]
        self._place: tuple[int, int] | None = (0, 0) if self._pool else None
        self._written: list[int] = []
        self._ends: dict[tuple[int, ...], list[tuple[int, int]]] | None = None
        self.resync = resync

    def propose(self, most: int) -> list[int]:
        """Return up to `most` tokens that may follow.

        Args:
            most: How many at most.
        """
        if self._place is None or most < 1:
            return []
        number, start = self._place
        return list(self._pool[number][start : start + most])

    def advance(self, tokens: Sequence[int]) -> None:
        """Tell what the sequence went on with.

        Args:
            tokens: Tokens written since the last call.
        """
        self._written += tokens
        if self._place is not None:
            number, start = self._place
            if tuple(tokens) == self._pool[number][start : start + len(tokens)]:
                self._place = (number, start + len(tokens))
                if self._place[1] < len(self._pool[number]):
                    return
        self._place = self._found() if self.resync else None

    def _found(self) -> tuple[int, int] | None:
        end = tuple(self._written[-SHORTEST_MATCH:])
        if len(end) < SHORTEST_MATCH:
            return None
        best, length = None, 0
        for number, stop in self._index().get(end, ()):
            tokens, match = self._pool[number], SHORTEST_MATCH
            while (
                match < min(LONGEST_MATCH, len(self._written), stop)
                and tokens[stop - match - 1] == self._written[-match - 1]
            ):
                match += 1
            if match > length:
                best, length = (number, stop), match
        return best

    def _index(self) -> dict[tuple[int, ...], list[tuple[int, int]]]:
        """Return where each pair of tokens ends, places with nothing after them left out."""
        if self._ends is None:
            self._ends = defaultdict(list)
            for number, tokens in enumerate(self._pool):
                for stop in range(SHORTEST_MATCH, len(tokens)):
                    self._ends[tokens[stop - SHORTEST_MATCH : stop]].append((number, stop))
        return self._ends


def check_rejection(drafts: Iterable[Draft | None], vocabulary: int) -> None:
    """Refuse drafts with which rejection would not return the model's law.

    Args:
        drafts: To be used.
        vocabulary: Tokens that the model knows.

    Raises:
        InputError: When a draft lacks its law or was picked by its content.
    """
    for draft in drafts:
        if draft is None or not draft.tokens:
            continue
        if draft.chosen:
            raise InputError(
                "A draft was picked by its content (first finished, best of several), so it is no sample of its law, "
                "and rejection would favour such texts; use the mode match or coupled."
            )
        if draft.law is None or draft.law.shape != (len(draft.tokens), vocabulary):
            raise InputError(
                f"Rejection needs the law that each of the {len(draft.tokens)} tokens of a draft was drawn from, shape "
                f"({len(draft.tokens)}, {vocabulary}); keep it, or use the mode match or coupled."
            )
