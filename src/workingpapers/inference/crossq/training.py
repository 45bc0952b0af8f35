"""Training: candidates mined with full precision, then gradient steps on the tokens that win a maximum.

The score of a document depends on its winner tokens alone, and so does its gradient. Each step codes all tokens of its
documents without gradients, finds the winners, and repeats the coding with gradients for them (and for a random sample
that carries the reconstruction loss): the same gradient at a fraction of the cost.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.progress import Progress, silent
from workingpapers.inference.crossq.candidates import Candidates
from workingpapers.inference.crossq.network import ConditionalQuantiser, distillation_loss, ranking_loss
from workingpapers.inference.crossq.vectors import Packed

CHECKS = 5
VALIDATION_QUERIES = 48
RECONSTRUCTION_TOKENS = 512


@dataclass(frozen=True)
class Objective:
    """Weights of the training loss, ``kl * KL + rank * ranking + reconstruction * squared error``.

    Args:
        kl: Weight of the distillation of full-precision scores over candidates.
        rank: Weight of the pairwise loss of the positive against hard negatives.
        reconstruction: Weight of the squared coding error, which holds the codes near the vectors.
        temperature: Temperature of the distillation.
        margin: Gap that the pairwise loss asks for.
    """

    kl: float = 1.0
    rank: float = 0.2
    reconstruction: float = 0.5
    temperature: float = 1.0
    margin: float = 0.0


@dataclass(frozen=True)
class Trained:
    """What training gives.

    Args:
        model: The best state that the validation queries saw; the initial one where training did not help.
        before: Validation loss before the first step.
        after: Validation loss of `model`.
        step: Step of that state; 0 where training did not help.
    """

    model: ConditionalQuantiser
    before: float
    after: float
    step: int


class _Batcher:
    """Turns queries and candidates into tensors."""

    def __init__(self, queries: Packed, documents: Packed, candidates: Candidates) -> None:
        self.rows = torch.from_numpy(documents.rows)
        self.offsets = documents.offsets
        self.candidates = candidates
        lengths = np.diff(queries.offsets)
        self.queries = torch.zeros(len(lengths), int(lengths.max()), queries.rows.shape[1])
        for number, length in enumerate(lengths):
            start = queries.offsets[number]
            self.queries[number, :length] = torch.from_numpy(queries.rows[start : start + length])

    def tokens(self, documents: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows (T, D), the document of each (T,), and the token table (documents, longest), -1 as padding."""
        lengths = np.diff(self.offsets)[documents]
        table = np.full((len(documents), int(lengths.max())), -1, dtype=np.int64)
        inside = np.arange(table.shape[1]) < lengths[:, None]
        table[inside] = np.arange(int(lengths.sum()))
        source = np.concatenate([np.arange(self.offsets[d], self.offsets[d + 1]) for d in documents])
        owner = np.repeat(np.arange(len(documents)), lengths)
        return self.rows[torch.from_numpy(source)], torch.from_numpy(owner), torch.from_numpy(table)


def batch_loss(
    model: ConditionalQuantiser,
    batcher: _Batcher,
    numbers: np.ndarray,
    columns: np.ndarray,
    objective: Objective,
    generator: torch.Generator,
) -> Tensor:
    """Return the loss of some queries.

    Args:
        model: The quantiser.
        batcher: The data.
        numbers: Query numbers, shape (B,).
        columns: Columns of the candidates to use, shape (B, L); column 0 first.
        objective: Weights.
        generator: Draws the tokens of the reconstruction loss.
    """
    chosen = np.take_along_axis(batcher.candidates.rows[numbers], columns, axis=1)
    teacher = torch.from_numpy(np.take_along_axis(batcher.candidates.scores[numbers], columns, axis=1))
    documents, places = np.unique(chosen, return_inverse=True)
    raw, owner, table = batcher.tokens(documents)
    rows = model.prepare(raw)
    context = model.context(rows, owner, len(documents))
    queries = batcher.queries[torch.from_numpy(numbers)]
    if model.projection is not None:
        queries = model.prepare(queries)
    sample = torch.randint(len(rows), (RECONSTRUCTION_TOKENS,), generator=generator)
    if objective.kl == 0 and objective.rank == 0:
        wanted = rows[sample]
        rebuilt: Tensor = model(wanted, None if context is None else context[owner[sample]])
        return objective.reconstruction * (wanted - rebuilt).square().sum(dim=1).mean()
    winners = _winners(model, rows, context, owner, table[torch.from_numpy(places.reshape(chosen.shape))], queries)
    needed, inverse = torch.unique(torch.cat([winners.flatten(), sample]), return_inverse=True)
    decoded: Tensor = model(rows[needed], None if context is None else context[owner[needed]])
    won = decoded[inverse[: winners.numel()]].view(*winners.shape, -1)
    student = (queries[:, None] * won).sum(dim=(2, 3))
    picked = inverse[winners.numel() :]
    loss = objective.kl * distillation_loss(teacher, student, objective.temperature)
    loss = loss + objective.rank * ranking_loss(student, objective.margin)
    return loss + objective.reconstruction * (rows[needed][picked] - decoded[picked]).square().sum(dim=1).mean()


@torch.no_grad()
def _winners(
    model: ConditionalQuantiser, rows: Tensor, context: Tensor | None, owner: Tensor, table: Tensor, queries: Tensor
) -> Tensor:
    """Return the token that attains each maximum, shape (B, L, m). `table` is (B, L, longest)."""
    decoded = model.hard(rows, None if context is None else context[owner])
    products = torch.einsum("bid,blnd->blin", queries, decoded[table.clamp(min=0)])
    best = products.masked_fill(table[:, :, None] < 0, -math.inf).argmax(dim=3)
    return torch.gather(table, 2, best)


def train(
    model: ConditionalQuantiser,
    queries: Packed,
    documents: Packed,
    candidates: Candidates,
    objective: Objective,
    *,
    steps: int,
    batch: int,
    negatives: int,
    learning_rate: float,
    seed: int,
    progress: Progress = silent,
) -> Trained:
    """Train with Adam and a cosine schedule, and keep the state with the least loss on held-out training queries.

    Args:
        model: The quantiser, changed in place.
        queries: Training queries (prepared, unless the model trains its projection).
        documents: Documents (the same).
        candidates: Their candidates with full-precision scores.
        objective: Weights of the loss.
        steps: Gradient steps.
        batch: Queries in a step.
        negatives: Candidates drawn for each query beside the positive.
        learning_rate: Step size of Adam.
        seed: Seed of the order of queries and of the draws.
        progress: Called after each step.
    """
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    batcher = _Batcher(queries, documents, candidates)
    order = rng.permutation(len(candidates.rows))
    held = order[: min(VALIDATION_QUERIES, len(order) // 5)]
    training = order[len(held) :]
    width = candidates.rows.shape[1]
    # Codes are judged by the ranking where training asks for it: a larger coding error is no loss then.
    ranks = objective.kl > 0 or objective.rank > 0
    judged = replace(objective, reconstruction=0.0) if ranks else objective

    def validate() -> float:
        if not len(held):
            return math.nan
        columns = np.tile(np.arange(width), (len(held), 1))
        with torch.no_grad():
            fixed = torch.Generator().manual_seed(seed)
            return float(batch_loss(model, batcher, held, columns, judged, fixed))

    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps))
    before = after = validate()
    state, best = copy.deepcopy(model.state_dict()), 0
    take = min(negatives, width - 1)
    for step in range(1, steps + 1):
        numbers = rng.choice(training, size=min(batch, len(training)), replace=False)
        drawn = rng.random((len(numbers), width - 1)).argsort(axis=1)[:, :take] + 1
        columns = np.concatenate([np.zeros((len(numbers), 1), dtype=np.int64), drawn], axis=1)
        loss = batch_loss(model, batcher, numbers, columns, objective, generator)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if step % max(1, steps // CHECKS) == 0 or step == steps:
            loss_now = validate()
            if loss_now < after or not len(held):
                after, best, state = loss_now, step, copy.deepcopy(model.state_dict())
        progress(step / steps, f"step {step} of {steps}, loss {float(loss.detach()):.3f}")
    model.load_state_dict(state)
    return Trained(model, before, after, best)
