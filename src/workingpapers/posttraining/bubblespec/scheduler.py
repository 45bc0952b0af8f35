"""What a rank does between its last token and the barrier: it drafts the next step's prompts until all have arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.bubblespec.drafts import Draft, DraftStore

Order = Literal["own", "pooled"]
Job = tuple[Hashable, int]  # prompt and number of the sample


class BubbleScheduler:
    """Hands out drafts to be written, whatever engine writes them, and takes them back whole or in part.

    Every prompt gets one draft before any gets two. Partial drafts are kept, and gone on from in a later window.

    Args:
        prompts: Prompts of the next step, one list a rank.
        samples: Samples a prompt.
        order: "own" for the rank's own prompts, "pooled" for one queue of all (drafts are token numbers, cheap to
            send).
        store: Where drafts go.
        version: Update after which the policy that writes them was current.

    Raises:
        InputError: When the next prompts are not known.
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[Hashable]] | None,
        *,
        samples: int,
        order: Order = "own",
        store: DraftStore | None = None,
        version: int = 0,
    ) -> None:
        if prompts is None:
            raise InputError(
                "The prompts of the next step are not known: the sampler cannot be peeked; fix its order with a seed."
            )
        if order not in ("own", "pooled") or samples < 1:
            raise InputError(f"order={order!r} must be 'own' or 'pooled' and samples={samples} at least 1.")
        self.store = DraftStore() if store is None else store
        self.version = version
        self.closed = False
        queues = [
            deque((prompt, sample) for sample in range(samples) for prompt in own) for own in prompts
        ]  # fmt: skip
        if order == "pooled":
            pooled: deque[Job] = deque()
            for sample in range(samples):
                pooled += [(prompt, sample) for own in prompts for prompt in own]
            queues = [pooled] * len(prompts)
        self._queues = queues
        self._out: dict[int, list[Job]] = {}

    def on_rank_done(self, rank: int, count: int) -> list[tuple[Job, tuple[int, ...]]]:
        """Return up to `count` drafts for a rank to write, each with the tokens that are there already.

        Args:
            rank: The rank.
            count: How many it writes at once.
        """
        if self.closed:
            return []
        queue = self._queues[rank]
        jobs = [queue.popleft() for _ in range(min(count, len(queue)))]
        self._out.setdefault(rank, []).extend(jobs)
        return [(job, self._begun(job)) for job in jobs]

    def on_draft(self, rank: int, job: Job, tokens: Sequence[int]) -> None:
        """Take a draft, whole or in part.

        Args:
            rank: The rank that wrote it.
            job: What was handed out.
            tokens: All its tokens so far.
        """
        self._out[rank].remove(job)
        if tokens:
            self.store.put(*job, Draft(tuple(tokens), self.version))

    def on_barrier(self) -> int:
        """Close the window; return how many drafts are still out, which come back as far as they are."""
        self.closed = True
        return sum(len(jobs) for jobs in self._out.values())

    def _begun(self, job: Job) -> tuple[int, ...]:
        draft = self.store.own(*job)
        return draft.tokens if draft is not None and draft.version == self.version else ()


class Arrivals:
    """Tells a rank whether all ranks have reached the barrier of a step, without waiting.

    Args:
        store: A store of torch.distributed that all ranks share.
        ranks: How many there are.
    """

    def __init__(self, store: Any, ranks: int) -> None:
        self.store, self.ranks = store, ranks

    def arrive(self, step: int) -> None:
        """Say that this rank has written its last token of a step.

        Args:
            step: Number of the step.
        """
        self.store.add(f"bubblespec/{step}", 1)

    def all_here(self, step: int) -> bool:
        """Return whether all ranks have.

        Args:
            step: Number of the step.
        """
        return int(self.store.add(f"bubblespec/{step}", 0)) >= self.ranks
