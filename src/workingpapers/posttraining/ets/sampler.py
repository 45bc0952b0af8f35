"""Energy-guided sampling over any chain, many queries at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.posttraining.ets.energy import check_temperature, effective_size, log_energy, weights
from workingpapers.posttraining.ets.rewards import Reward
from workingpapers.posttraining.ets.states import Chain, Floats, Integers, States, Streams, choose


@dataclass
class Tokens:
    """Tokens drawn, the cost of a run.

    Args:
        candidates: By the reference, in candidate blocks.
        rollouts: By whichever model completes candidates.
        scored: Scored by the reference in importance ratios, in parallel passes.
    """

    candidates: int = 0
    rollouts: int = 0
    scored: int = 0

    @property
    def total(self) -> int:
        """Candidates and completions."""
        return self.candidates + self.rollouts


@dataclass(frozen=True)
class Step:
    """One choice of a block for one query.

    Args:
        log_energies: Of the M candidates, shape (M,).
        weights: Their shares, shape (M,).
        chosen: Index of the one that was drawn.
        effective: Effective number of candidates, 1 to M.
        clipped: Completions whose ratio was clipped: the estimate is then biased.
    """

    log_energies: Floats
    weights: Floats
    chosen: int
    effective: float
    clipped: int


@dataclass(frozen=True)
class EnergyGuidedOutput:
    """What a run gives.

    Args:
        completions: One finished answer a query, as the reward sees it.
        states: The same as tokens.
        trace: Steps of each query.
        tokens: What it cost.
    """

    completions: Sequence[Any]
    states: States
    trace: list[list[Step]]
    tokens: Tokens = field(default_factory=Tokens)


class EnergyGuidedSampler:
    r"""Sample from :math:`p_{ref}(x) e^{r(x)/\lambda} / Z` by choosing each block in proportion to its energy.

    Args:
        chain: The reference model.
        reward: Reward of finished answers.
        temperature: lambda > 0 of the KL-regularised objective.
        candidates: M >= 1 blocks to choose from.
        rollouts: K >= 1 completions of each.
        block: Tokens of a block; `chain.longest` or more makes a single choice among M answers.
        proposal: A cheaper chain with the same vocabulary for the completions, which importance ratios correct; the
            candidates still come from the reference.
        clip: Largest absolute log-ratio; None for no limit. A clipped ratio biases the energy, and the trace counts it.

    Raises:
        InputError: When a number is out of range or the chains do not fit.

    References:
        Algorithms 1 and 2 of arXiv:2601.21484; the ratio covers the tokens after the candidate alone.
    """

    def __init__(
        self,
        chain: Chain,
        reward: Reward,
        *,
        temperature: float = 0.1,
        candidates: int = 15,
        rollouts: int = 3,
        block: int = 64,
        proposal: Chain | None = None,
        clip: float | None = None,
    ) -> None:
        check_temperature(temperature)
        for name, value in (("candidates", candidates), ("rollouts", rollouts), ("block", block)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, and is {value}.")
        if clip is not None and not clip > 0:
            raise InputError(f"clip must be positive, and is {clip}.")
        sizes = [getattr(one, "vocabulary", None) for one in (chain, proposal)]
        if proposal is not None and sizes[0] != sizes[1]:
            raise InputError(f"Model and proposal have vocabularies of {sizes[0]} and {sizes[1]}; they must be one.")
        self.chain, self.reward, self.proposal = chain, reward, proposal
        self.temperature, self.candidates, self.rollouts = temperature, candidates, rollouts
        self.block, self.clip = block, clip

    def sample(
        self, prompts: Sequence[Any], *, seeds: Sequence[int] | int = 0, progress: Progress = silent
    ) -> EnergyGuidedOutput:
        """Return one answer a prompt.

        Args:
            prompts: q prompts.
            seeds: Seed of each query, or the first of q in a row. An answer depends on its own seed alone, not on what
                else is asked.
            progress: Told of the share of queries that are finished.
        """
        numbers = list(range(seeds, seeds + len(prompts))) if isinstance(seeds, int) else list(seeds)
        if len(numbers) != len(prompts):
            raise InputError(f"There are {len(prompts)} prompts and {len(numbers)} seeds; give as many.")
        streams = Streams(numbers)
        states = self.chain.start(prompts, streams)
        tokens = Tokens()
        trace: list[list[Step]] = [[] for _ in prompts]
        while not states.finished.all():
            rows = np.flatnonzero(~states.finished)
            chosen = self._step(prompts, states.take(rows), streams, tokens, trace)
            states = states.put(rows, chosen)
            progress(float(states.finished.mean()), f"{int(states.finished.sum()):,} of {len(prompts):,} answers")
        return EnergyGuidedOutput(self.chain.read(prompts, states), states, trace, tokens)

    def _step(
        self, prompts: Sequence[Any], states: States, streams: Streams, tokens: Tokens, trace: list[list[Step]]
    ) -> States:
        m, queries = self.candidates, len(states)
        before = states.repeat(m)
        blocks = self.chain.extend(prompts, before, self.block, streams)
        tokens.candidates += int((blocks.lengths - before.lengths).sum())
        energies, clipped = self._energies(prompts, blocks, streams, tokens)
        shares = weights(energies.reshape(queries, m))
        picked = choose(shares, streams.draw(states.groups))
        for row, group in enumerate(states.groups.tolist()):
            trace[group].append(
                Step(
                    energies.reshape(queries, m)[row],
                    shares[row],
                    int(picked[row]),
                    float(effective_size(shares[row])),
                    int(clipped.reshape(queries, m)[row].sum()),
                )
            )
        return blocks.take(np.arange(queries) * m + picked)

    def _energies(
        self, prompts: Sequence[Any], blocks: States, streams: Streams, tokens: Tokens
    ) -> tuple[Floats, Integers]:
        """Return the log-energy of each candidate and how many of its ratios were clipped."""
        k = self.rollouts
        # A finished candidate needs one evaluation; all completions are scored together, rows of a query in a row.
        counts = np.where(blocks.finished, 1, k)
        source = np.repeat(np.arange(len(blocks)), counts)
        starts = blocks.take(source)
        writer = self.chain if self.proposal is None else self.proposal
        ended = writer.extend(prompts, starts, self.chain.longest, streams)
        tokens.rollouts += int((ended.lengths - starts.lengths).sum())
        values = self._scored(prompts, ended)
        ratios, clipped = np.zeros(len(ended)), np.zeros(len(ended), dtype=np.int64)
        if self.proposal is not None:
            open_rows = np.flatnonzero(~starts.finished)
            rows, since = ended.take(open_rows), starts.lengths[open_rows]
            if len(rows):
                tokens.scored += int((rows.lengths - since).sum())
                found = self.chain.log_probs(prompts, rows, since) - self.proposal.log_probs(prompts, rows, since)
                if self.clip is not None:
                    clipped[open_rows] = np.abs(found) > self.clip
                    found = np.clip(found, -self.clip, self.clip)
                ratios[open_rows] = found
        energies = np.empty(len(blocks))
        first = np.concatenate([[0], np.cumsum(counts)])[:-1]
        done = blocks.finished
        energies[done] = log_energy(values[first[done], None], self.temperature)
        rows_of = first[~done, None] + np.arange(k)
        energies[~done] = log_energy(values[rows_of], self.temperature, ratios[rows_of])
        return energies, np.asarray(np.add.reduceat(clipped, first), dtype=np.int64)

    def _scored(self, prompts: Sequence[Any], ended: States) -> NDArray[np.float64]:
        asked = _rows_of(prompts, ended.groups)
        found = np.asarray(self.reward(asked, self.chain.read(prompts, ended), ended.groups), dtype=np.float64)
        if found.shape != (len(ended),):
            raise InputError(
                f"The reward gave shape {found.shape} for {len(ended)} completions; it must give one each."
            )
        return found


def _rows_of(prompts: Sequence[Any], groups: Integers) -> Sequence[Any]:
    return [prompts[group] for group in groups.tolist()] if not isinstance(prompts, range) else groups.tolist()
