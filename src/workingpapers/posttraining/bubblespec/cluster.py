r"""A simulation of rollouts on a cluster: what idle ranks save, before one has a cluster.

Simulated, not measured: an iteration of a rank takes :math:`\tau = t_0 \max(1, \text{tokens} / S)` with tokens = live
sequences + checked drafts. Without drafts a rank with lengths :math:`L_1 \ge \dots \ge L_n` is done after
:math:`\sum_j \tau(j) (L_j - L_{j+1})`, which the events reproduce. Step time and saturation come from :func:`calibrate`
on one's own model, lengths and acceptance from :func:`~.decoding.lossless_decode` on one's own prompts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ClusterSpec:
    """Ranks, their work and their speed.

    Args:
        ranks: Ranks that decode and meet at a barrier.
        prompts: Prompts of a rank in a step.
        samples: Samples a prompt.
        saturation: S, tokens of an iteration up to which it takes no longer.
        step_time: t_0, seconds of such an iteration.
        ahead: Most draft tokens of a sequence in an iteration.
        order: "own" or "pooled" prompts in idle windows.
        siblings: Whether a sequence goes on from the drafts of its prompt's other samples where its own ends.
    """

    ranks: int = 8
    prompts: int = 2
    samples: int = 8
    saturation: int = 64
    step_time: float = 1.0
    ahead: int = 8
    order: Literal["own", "pooled"] = "pooled"
    siblings: bool = True

    def __post_init__(self) -> None:
        if min(self.ranks, self.prompts, self.samples, self.saturation, self.ahead) < 1 or not self.step_time > 0:
            raise InputError(
                f"ranks={self.ranks}, prompts={self.prompts}, samples={self.samples}, saturation={self.saturation} and "
                f"ahead={self.ahead} must be at least 1 and step_time={self.step_time} positive."
            )
        if self.order not in ("own", "pooled"):
            raise InputError(f"order is {self.order!r}; choose 'own' or 'pooled'.")


@dataclass(frozen=True)
class LengthModel:
    """Lengths of completions: median * exp(m + e), m shared by the samples of a prompt, both normal.

    Args:
        median: Tokens.
        longest: Limit.
        prompt_spread: Standard deviation of m.
        sample_spread: Standard deviation of e.
    """

    median: float = 60.0
    longest: int = 800
    prompt_spread: float = 0.7
    sample_spread: float = 0.5

    def draw(self, prompts: int, samples: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """Return lengths and the lengths that drafts would have, independent given the prompt, (prompts, samples).

        Args:
            prompts: How many.
            samples: Of each.
            rng: Source.
        """
        shared = self.prompt_spread * rng.standard_normal((prompts, 1))
        pair = [
            np.exp(shared + self.sample_spread * rng.standard_normal((prompts, samples))) * self.median
            for _ in range(2)
        ]
        one, two = (np.clip(np.round(value), 1, self.longest).astype(np.int64) for value in pair)
        return one, two


@dataclass(frozen=True)
class AcceptanceModel:
    """How often drafts stand.

    Args:
        stand: Chance of a draft token to stand, given that those before it do.
        resync: Chance, each iteration, that a sequence which left its draft finds a way back.
    """

    stand: float = 0.85
    resync: float = 0.3

    def __post_init__(self) -> None:
        if not (0 <= self.stand <= 1 and 0 <= self.resync <= 1):
            raise InputError(f"stand={self.stand} and resync={self.resync} must lie in [0, 1].")


@dataclass(frozen=True)
class Simulated:
    """What a simulated run took; all figures are simulated.

    Args:
        seconds: Wall time of all steps with drafts.
        plain_seconds: Without.
        iterations: Engine iterations of all ranks on the steps' own sequences, with drafts.
        plain_iterations: Without.
        idle: Share of rank time between last token and barrier, without drafts.
        coverage: Share of the tokens that usable drafts reach.
        extra: Draft tokens written in idle windows, for each token of the output.
        tokens: Tokens of the output.
    """

    seconds: float
    plain_seconds: float
    iterations: int
    plain_iterations: int
    idle: float
    coverage: float
    extra: float
    tokens: int

    @property
    def speedup(self) -> float:
        """Time without drafts over time with them."""
        return self.plain_seconds / self.seconds


def simulate(
    spec: ClusterSpec, lengths: LengthModel, acceptance: AcceptanceModel, *, steps: int = 10, seed: int = 0
) -> Simulated:
    """Run the steps twice on the same lengths, without and with drafts, as events in SimPy.

    Args:
        spec: The cluster.
        lengths: Of completions and drafts.
        acceptance: Of drafts.
        steps: Training steps; the first has no drafts.
        seed: Of lengths and acceptance.

    Raises:
        InputError: When `steps` is not positive.
    """
    if steps < 1:
        raise InputError(f"steps is {steps}; at least one is needed.")
    drawn = [
        lengths.draw(spec.ranks * spec.prompts, spec.samples, np.random.default_rng([seed, step]))
        for step in range(steps)
    ]
    plain, seconds, idle, iterations = None, 0.0, 0.0, 0
    for true, _ in drawn:
        plain = _Step(spec, true, None, None, acceptance, np.random.default_rng([seed, 1 << 20]))
        plain.run()
        seconds += plain.end
        idle += sum(plain.end - one for one in plain.done) / (spec.ranks * plain.end)
        iterations += plain.iterations
    drafts: Integers | None = None
    taken, used, covered, extra = 0.0, 0, 0.0, 0
    for step, (true, _) in enumerate(drawn):
        following = drawn[step + 1][1] if step + 1 < steps else None
        one = _Step(spec, true, drafts, following, acceptance, np.random.default_rng([seed, step, 1]))
        one.run()
        taken += one.end
        used += one.iterations
        covered += float(one.covered)
        extra += 0 if one.written is None else int(one.written.sum())
        drafts = one.written
    tokens = int(sum(true.sum() for true, _ in drawn))
    return Simulated(
        taken, seconds, used, iterations, idle / steps, covered / tokens, extra / tokens, tokens
    )  # fmt: skip


@dataclass(frozen=True)
class StepTime:
    """Measured time of a forward pass by its number of tokens.

    Args:
        tokens: Tokens of a pass, shape (k,).
        seconds: Median time, shape (k,).
        step_time: t_0 of the fitted max(1, tokens / S).
        saturation: S.
    """

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    step_time: float
    saturation: int


def calibrate(
    model: Any, *, tokens: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64), context: int = 16, repeats: int = 5
) -> StepTime:
    """Measure forward passes of a model on this machine and fit the time of an iteration.

    Args:
        model: A causal language model of transformers.
        tokens: Sequences of one new token each, in a pass.
        context: Tokens already in the cache.
        repeats: Passes of each; the median counts.
    """
    import time

    import torch

    from workingpapers.foundations.language import cache_name

    name, medians = cache_name(model), []
    with torch.no_grad():
        for count in tokens:
            ids = torch.ones(count, context, dtype=torch.long, device=model.device)
            cache: Any = model(input_ids=ids, use_cache=True, logits_to_keep=1)[name]
            seconds = []
            for _ in range(repeats):
                begin = time.perf_counter()
                model(input_ids=ids[:, :1], use_cache=True, **{name: cache}).logits.sum().item()
                seconds.append(time.perf_counter() - begin)
                cache.crop(-1)
            medians.append(float(np.median(seconds)))
    return StepTime(tuple(tokens), tuple(medians), *fit_step_time(tokens, medians))


def fit_step_time(tokens: tuple[int, ...], seconds: list[float]) -> tuple[float, int]:
    """Return t_0 and S of t_0 max(1, tokens / S), the best in squared error of logarithms.

    Args:
        tokens: Tokens of a pass, shape (k,).
        seconds: Time, shape (k,).
    """
    count, log_time = np.asarray(tokens, np.float64), np.log(np.asarray(seconds, np.float64))
    best = (np.inf, 0.0, 1)
    for saturation in range(1, 2 * max(tokens) + 1):
        shape = np.log(np.maximum(1, count / saturation))
        level = float((log_time - shape).mean())
        error = float(((log_time - shape - level) ** 2).sum())
        if error < best[0] - 1e-12:
            best = (error, float(np.exp(level)), saturation)
    return best[1], best[2]


class _Step:
    """One step of all ranks: decode, fill the window, meet."""

    def __init__(
        self, spec: ClusterSpec, lengths: Integers, drafts: Integers | None, following: Integers | None,
        acceptance: AcceptanceModel, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        import simpy

        self.spec, self.acceptance, self.rng = spec, acceptance, rng
        self.environment: Any = simpy.Environment()
        self.barrier: Any = self.environment.event()
        self.lengths = lengths
        self.usable = np.zeros_like(lengths)
        if drafts is not None:
            self.usable = np.broadcast_to(drafts.max(1, keepdims=True), lengths.shape) if spec.siblings else drafts
        self.covered = int(np.minimum(self.usable, lengths).sum())
        self.following = following
        self.written: Integers | None = None if following is None else np.zeros_like(following)
        self.queues = _queues(spec)
        self.done: list[float] = [0.0] * spec.ranks
        self.end, self.iterations, self.arrived = 0.0, 0, 0

    def run(self) -> None:
        for rank in range(self.spec.ranks):
            self.environment.process(self._rank(rank))
        self.environment.run()

    def _rank(self, rank: int) -> Iterator[Any]:
        spec = self.spec
        own = slice(rank * spec.prompts, (rank + 1) * spec.prompts)
        left, usable = self.lengths[own].ravel().copy(), self.usable[own].ravel()
        position, synced = np.zeros_like(left), usable > 0
        while len(left):
            room = max(0, spec.saturation - len(left))
            ahead = self._ahead(left, usable - position, synced, room)
            yield self.environment.timeout(spec.step_time * max(1.0, (len(left) + ahead.sum()) / spec.saturation))
            self.iterations += 1
            # A run ends at the first token that does not stand.
            run = np.minimum(ahead, self.rng.geometric(1 - self.acceptance.stand, len(left)) - 1) \
                if self.acceptance.stand < 1 else ahead  # fmt: skip
            back = ~synced & (self.rng.random(len(left)) < self.acceptance.resync)
            synced = np.where(ahead > 0, run == ahead, synced | back)
            gained = np.minimum(run + 1, left)
            position, left = position + gained, left - gained
            live = left > 0
            left, usable, position, synced = left[live], usable[live], position[live], synced[live]
        self.done[rank] = self.environment.now
        self.arrived += 1
        if self.arrived == spec.ranks:
            self.end = self.environment.now
            self.barrier.succeed()
        elif self.following is not None:
            yield from self._window(rank)

    def _ahead(self, left: Integers, reach: Integers, synced: NDArray[np.bool_], room: int) -> Integers:
        """Return the drafts of each sequence, shared evenly in the room that is left."""
        wanted = np.where(synced, np.clip(np.minimum(reach, left - 1), 0, self.spec.ahead), 0)
        if wanted.sum() <= room:
            return wanted.astype(np.int64)
        level = 0
        while np.minimum(wanted, level + 1).sum() <= room:
            level += 1
        given = np.minimum(wanted, level)
        spare = np.flatnonzero(wanted > level)[: room - int(given.sum())]
        given[spare] += 1
        return given.astype(np.int64)

    def _window(self, rank: int) -> Iterator[Any]:
        """Write drafts, as many at once as are free, until the barrier."""
        assert self.following is not None
        assert self.written is not None
        queue = self.queues[rank]
        jobs: list[tuple[int, int]] = []
        while not self.barrier.triggered:
            while queue and len(jobs) < self.spec.saturation:
                jobs.append(queue.popleft())
            if not jobs:
                return
            step = self.environment.timeout(self.spec.step_time)
            yield step | self.barrier
            if not step.processed:
                return
            for job in jobs:
                self.written[job] += 1
            jobs = [job for job in jobs if self.written[job] < self.following[job]]


def _queues(spec: ClusterSpec) -> list[deque[tuple[int, int]]]:
    """Return the drafts that each rank may write, one of every prompt before a second of any."""
    if spec.order == "pooled":
        pooled = deque((prompt, sample) for sample in range(spec.samples)
                       for prompt in range(spec.ranks * spec.prompts))  # fmt: skip
        return [pooled] * spec.ranks
    return [
        deque((prompt, sample) for sample in range(spec.samples)
              for prompt in range(rank * spec.prompts, (rank + 1) * spec.prompts))
        for rank in range(spec.ranks)
    ]  # fmt: skip
