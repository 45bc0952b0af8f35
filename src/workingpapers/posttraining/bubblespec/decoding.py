"""Speculative decoding of many sequences of one model, with drafts from anywhere and the law of plain sampling.

All sequences share a cache. A sequence that proposes fewer tokens than the widest is padded on the left, and what is
refused stays in the cache unseen: its columns are masked out, positions are told explicitly, and the cache is packed
when more than half of it is of no use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import cache_name
from workingpapers.foundations.progress import Progress, silent
from workingpapers.posttraining.bubblespec.drafts import Draft, Follower, check_rejection
from workingpapers.posttraining.bubblespec.noise import Key
from workingpapers.posttraining.bubblespec.verify import Sampling, matching, rejection

Mode = Literal["match", "coupled", "rejection"]
PACKED = 0.5  # share of the cache in use below which it is packed


@dataclass(frozen=True)
class Request:
    """A sequence to be written.

    Args:
        prompt: Token numbers, at least one.
        key: Of its noise.
        pool: Drafts, its own first; none for plain sampling.
        begun: Tokens that were written before, which are gone on from (for drafts that are made in several windows).
    """

    prompt: tuple[int, ...]
    key: Key
    pool: tuple[Draft, ...] = ()
    begun: tuple[int, ...] = ()


@dataclass(frozen=True)
class Written:
    """A sequence that was written.

    Args:
        tokens: Token numbers, the end mark included where the model gave one.
        log_probs: Log-probability of each under the law it was drawn from, by the present weights, float64.
        ended: Whether the model ended it, rather than the limit or a stop.
        passes: Forward passes that it took part in.
        drafted: Draft tokens that were checked.
        accepted: Draft tokens that stood.
        law: Probabilities that each token was drawn from, where they were asked for, shape (length, vocabulary).
    """

    tokens: tuple[int, ...]
    log_probs: Tensor
    ended: bool
    passes: int
    drafted: int
    accepted: int
    law: Tensor | None = None


@dataclass
class Decoded:
    """All sequences of a call, and what the call took.

    Args:
        written: One a request, in order.
        passes: Forward passes of the model.
        seconds: Wall time.
        finished: Pass after which each sequence was complete; that of the last is `passes`.
    """

    written: list[Written]
    passes: int
    seconds: float
    finished: list[int]

    @property
    def acceptance(self) -> float:
        """Share of the checked draft tokens that stood; 0 without drafts."""
        drafted = sum(one.drafted for one in self.written)
        return sum(one.accepted for one in self.written) / drafted if drafted else 0.0


@dataclass
class _Row:
    request: Request
    follower: Follower
    tokens: list[int]
    pending: list[int]  # written, not yet in the cache
    log_probs: list[float] = field(default_factory=list)
    laws: list[Tensor] = field(default_factory=list)
    ended: bool = False
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    positions: int = 0  # tokens in the cache


def lossless_decode(
    model: Any,
    requests: Sequence[Request],
    *,
    mode: Mode = "coupled",
    most: int = 64,
    ahead: int = 8,
    capacity: int | None = None,
    sampling: Sampling | None = None,
    ends: Iterable[int] | None = None,
    resync: bool = True,
    keep_laws: bool = False,
    stop: Callable[[], bool] | None = None,
    progress: Progress = silent,
) -> Decoded:
    """Write sequences whose law, and in the modes match and coupled whose very tokens, are those of plain sampling.

    Each pass checks the drafts of all sequences at once. The modes match and coupled check in the same way and give the
    same tokens as a call without drafts; "coupled" says that drafts were made with the requests' own keys, by which
    they stand nearly always while the weights have hardly changed. Equality to the last token holds where the model's
    numbers do not depend on the shape of a batch by more than the gap between two tokens: in float64 and float32 in
    practice, in bfloat16 the law is exact for the numbers computed.

    Args:
        model: A causal language model of transformers.
        requests: Sequences to write.
        mode: "match" or "coupled", or "rejection", which needs drafts that are samples of a law they carry.
        most: Most tokens of a completion.
        ahead: Most draft tokens of a sequence in a pass.
        capacity: Tokens of a pass up to which the machine is bound by memory, so that checking is free; no more drafts
            are checked than fit beside the live sequences. None for no limit.
        sampling: Temperature, top-k and top-p.
        ends: End marks; the model's own by default.
        resync: Whether a sequence that left its draft looks for a way back into the prompt's drafts.
        keep_laws: Whether to keep the law of each token, for rejection later; vocabulary numbers a token.
        stop: Asked before each pass; when it says yes, what is written so far is returned.
        progress: Told of the share of sequences done.

    Returns:
        Sequences with log-probabilities, and counts.

    Raises:
        InputError: When a prompt is empty, a number is out of range, a text does not fit the model, a draft has tokens
            that the model does not know, or drafts do not fit rejection.
    """
    _check(model, requests, mode, most, ahead, capacity)
    rule = sampling or Sampling()
    marks = _ends(model) if ends is None else frozenset(ends)
    rows = [_row(request, mode, resync) for request in requests]
    passes, begin = 0, time.perf_counter()
    finished = [0] * len(rows)
    live = [number for number, row in enumerate(rows) if not _over(row, most, marks)]
    batch = _Cache(model)
    with torch.no_grad():
        while live and not (stop is not None and stop()):
            drafts = _proposals([rows[number] for number in live], ahead, capacity, most)
            logits = batch.forward([rows[number].pending for number in live], drafts,
                                   [rows[number].positions for number in live])  # fmt: skip
            passes += 1
            for place, (number, draft) in enumerate(zip(live, drafts, strict=True)):
                row = rows[number]
                laws = rule.log_law(logits[place, -len(draft) - 1 :])
                _take(row, laws, draft, mode, most, marks, keep_laws)
                finished[number] = passes
            kept = [place for place, number in enumerate(live) if not _over(rows[number], most, marks)]
            batch.settle([rows[number].positions for number in live], kept)
            live = [live[place] for place in kept]
            progress(1 - len(live) / len(rows), f"{len(rows) - len(live):,} of {len(rows):,} sequences")
    written = [
        Written(
            tuple(row.tokens), torch.tensor(row.log_probs, dtype=torch.float64), row.ended, row.passes, row.drafted,
            row.accepted, torch.stack(row.laws) if keep_laws and row.laws else None,
        )
        for row in rows
    ]  # fmt: skip
    return Decoded(written, passes, time.perf_counter() - begin, finished)


class _Cache:
    """Keys and values of the live sequences, with a mask of the columns that count."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.name = cache_name(model)
        self.cache: Any = None
        self.mask = torch.zeros(0, 0, dtype=torch.long)
        self._last: list[tuple[int, int]] = []  # tokens and draft tokens of each row in the last pass

    def forward(self, pending: list[list[int]], drafts: list[list[int]], positions: list[int]) -> Tensor:
        """Return logits of the last places, shape (rows, width, vocabulary); the last draft token is the last place."""
        width = max(len(new) + len(draft) for new, draft in zip(pending, drafts, strict=True))
        ids = torch.zeros(len(pending), width, dtype=torch.long)
        seen, places = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (new, draft, start) in enumerate(zip(pending, drafts, positions, strict=True)):
            tokens = [*new, *draft]
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            seen[row, width - len(tokens) :] = 1
            places[row, width - len(tokens) :] = torch.arange(start, start + len(tokens))
        before = self.mask if len(self.mask) else torch.zeros(len(pending), 0, dtype=torch.long)
        self.mask = torch.cat([before, seen], 1)
        device = self.model.device
        out = self.model(
            input_ids=ids.to(device), attention_mask=self.mask.to(device), position_ids=places.to(device),
            use_cache=True, logits_to_keep=max(len(draft) for draft in drafts) + 1, **{self.name: self.cache},
        )  # fmt: skip
        self.cache = out[self.name]
        self._last = [(len(new), len(draft)) for new, draft in zip(pending, drafts, strict=True)]
        logits: Tensor = out.logits
        return logits

    def settle(self, positions: list[int], kept: list[int]) -> None:
        """Hide what was refused, drop sequences that are done, and pack the columns where many are of no use.

        Args:
            positions: Tokens of each row that stay in the cache.
            kept: Rows that go on.
        """
        counted = self.mask.sum(1).tolist()
        for row, (stay, now) in enumerate(zip(positions, counted, strict=True)):
            if now > stay:
                # The refused tokens of a row are the last of its columns.
                self.mask[row, self.mask.shape[1] - (now - stay) :] = 0
        if not kept:
            return
        rows = torch.tensor(kept)
        if len(kept) < len(self.mask):
            self.mask = self.mask[rows]
            self._map(lambda states: states[rows.to(states.device)])
        longest = int(self.mask.sum(1).max())
        if longest < PACKED * self.mask.shape[1]:
            # Columns that count go to the right end, in their order.
            order = self.mask.argsort(dim=1, stable=True)[:, -longest:]
            self.mask = self.mask.gather(1, order)
            self._map(lambda states: states.gather(2, order.to(states.device)[:, None, :, None].expand(
                -1, states.shape[1], -1, states.shape[3])))  # fmt: skip

    def _map(self, change: Callable[[Tensor], Tensor]) -> None:
        for layer in self.cache.layers:
            layer.keys, layer.values = change(layer.keys), change(layer.values)


def _row(request: Request, mode: Mode, resync: bool) -> _Row:
    tokens = list(request.begun)
    # A draft's law belongs to its own places: with rejection there is no way back into it.
    follower = Follower([one.tokens for one in request.pool], resync=resync and mode != "rejection")
    if tokens:
        follower.advance(tokens)
    return _Row(request, follower, tokens, [*request.prompt, *tokens], log_probs=[float("nan")] * len(tokens))


def _over(row: _Row, most: int, marks: frozenset[int]) -> bool:
    row.ended = bool(row.tokens) and row.tokens[-1] in marks
    return row.ended or len(row.tokens) >= most


def _proposals(rows: list[_Row], ahead: int, capacity: int | None, most: int) -> list[list[int]]:
    """Return each row's draft; the room that the live sequences leave is shared evenly."""
    wanted = [row.follower.propose(min(ahead, most - len(row.tokens) - 1)) for row in rows]
    if capacity is None:
        return wanted
    room = max(0, capacity - len(rows))
    given = [0] * len(rows)
    while room:
        short = [number for number, draft in enumerate(wanted) if given[number] < len(draft)][:room]
        if not short:
            break
        for number in short:
            given[number] += 1
        room -= len(short)
    return [draft[:count] for draft, count in zip(wanted, given, strict=True)]


def _take(row: _Row, laws: Tensor, draft: list[int], mode: Mode, most: int, marks: frozenset[int], keep: bool) -> None:
    """Write what stands and one more token; an end mark or the limit inside cuts it."""
    start = len(row.tokens)
    if mode == "rejection" and draft:
        own = row.request.pool[0]
        assert own.law is not None
        new, stood = rejection(laws, draft, own.law[start : start + len(draft)], row.request.key, start)
    else:
        new, stood = matching(laws, draft, row.request.key, start)
    stop = next((place + 1 for place, token in enumerate(new) if token in marks), len(new))
    new = new[: min(stop, most - start)]
    row.passes += 1
    row.drafted += len(draft)
    row.accepted += min(stood, len(new))
    for place, token in enumerate(new):
        row.log_probs.append(float(laws[place, token]))
        if keep:
            row.laws.append(laws[place].exp().cpu())
    row.positions += len(row.pending) + min(stood, len(new))
    row.pending = new[min(stood, len(new)) :]
    row.tokens += new
    row.follower.advance(new)


def _ends(model: Any) -> frozenset[int]:
    found = model.generation_config.eos_token_id
    if found is None:
        found = model.config.eos_token_id
    if found is None:
        raise InputError("The model has no end mark; give ends.")
    return frozenset([found] if isinstance(found, int) else found)


def _check(model: Any, requests: Sequence[Request], mode: Mode, most: int, ahead: int, capacity: int | None) -> None:
    if mode not in ("match", "coupled", "rejection"):
        raise InputError(f"The mode is {mode!r}; choose match, coupled or rejection.")
    if most < 1 or ahead < 1 or (capacity is not None and capacity < 1):
        raise InputError(f"most={most}, ahead={ahead} and capacity={capacity} must be at least 1.")
    vocabulary = int(model.config.vocab_size)
    longest = getattr(model.config, "max_position_embeddings", None)
    for number, request in enumerate(requests):
        if not request.prompt:
            raise InputError(f"Prompt {number} is empty; a model needs a token to go on from.")
        if longest and len(request.prompt) + most > longest:
            raise InputError(
                f"Prompt {number} has {len(request.prompt)} tokens; with {most} more that is over the {longest} that "
                "the model reads."
            )
        for draft in request.pool:
            if any(not 0 <= token < vocabulary for token in draft.tokens):
                raise InputError(
                    f"A draft of prompt {number} has the token {max(draft.tokens)} and the model knows {vocabulary}; "
                    "it was written by a model with another vocabulary."
                )
    if mode == "rejection":
        check_rejection([request.pool[0] if request.pool else None for request in requests], vocabulary)
