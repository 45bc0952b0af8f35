"""Any causal language model of transformers as a chain, with its cache read once a prefix and expanded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import TokenPair, cache_name, completion_log_probs
from workingpapers.posttraining.ets.states import EMPTY, Floats, Integers, States, Streams, choose


class CausalChain:
    """A model with the temperature and nucleus that define the reference law.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        longest: Most tokens of an answer.
        temperature: Logits are divided by it; the tempered model is the reference.
        top_p: Smallest probability mass to draw from.
        batch: Answers at a time.

    Raises:
        InputError: When a number is out of range or there is no end mark.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        longest: int = 512,
        temperature: float = 1.0,
        top_p: float = 1.0,
        batch: int = 256,
    ) -> None:
        if longest < 1 or batch < 1 or not temperature > 0 or not 0 < top_p <= 1:
            raise InputError(
                f"longest={longest} and batch={batch} must be at least 1, temperature={temperature} positive and "
                f"top_p={top_p} in (0, 1]."
            )
        if tokenizer.eos_token_id is None:
            raise InputError("The tokenizer has no end mark; set tokenizer.eos_token.")
        self.model, self.tokenizer = model.eval(), tokenizer
        self.longest, self.temperature, self.top_p, self.batch = longest, temperature, top_p, batch
        self.vocabulary = int(model.config.vocab_size)
        self.end = int(tokenizer.eos_token_id)

    def start(self, prompts: Sequence[Any], streams: Streams) -> States:
        """Return empty answers to texts or lists of token numbers.

        Raises:
            InputError: When a prompt is empty, or too long for the model with an answer of full length.
        """
        limit = getattr(self.model.config, "max_position_embeddings", None)
        for number, prompt in enumerate(prompts):
            length = len(self._ids(prompt))
            if not length:
                raise InputError(f"Prompt {number + 1} is empty; a model needs a token to go on from.")
            if limit and length + self.longest > limit:
                raise InputError(
                    f"Prompt {number + 1} has {length} tokens; with {self.longest} for the answer that is more than "
                    f"the {limit} that the model reads."
                )
        count = len(prompts)
        return States(
            np.arange(count),
            np.full((count, self.longest), EMPTY, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=bool),
        )

    def extend(self, prompts: Sequence[Any], states: States, count: int, streams: Streams) -> States:
        """Return the states with up to `count` more tokens, or fewer where the end mark comes."""
        tokens, lengths, finished = states.tokens.copy(), states.lengths.copy(), states.finished.copy()
        rows = np.flatnonzero(~finished)
        # Every row draws its numbers before the rows are cut into batches, so that batches change nothing.
        most = min(count, self.longest)
        uniform = np.stack([streams.draw(states.groups[rows]) for _ in range(most)]) if len(rows) else np.zeros((0, 0))
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            self._grow(prompts, states.groups, tokens, lengths, finished, part, uniform[:, start : start + self.batch])
        return States(states.groups, tokens, lengths, finished)

    def log_probs(self, prompts: Sequence[Any], states: States, since: Integers) -> Floats:
        """Return log-probabilities of the tokens after the first `since`, under temperature and nucleus."""
        pairs = []
        for row, begin in enumerate(since.tolist()):
            own = states.tokens[row, : states.lengths[row]].tolist()
            prefix = [*self._ids(prompts[states.groups[row]]), *own[:begin]]
            pairs.append(TokenPair(tuple(prefix), tuple(own[begin:])))
        if self.top_p < 1:
            return np.array([self._nucleus_log_prob(pair) for pair in pairs])
        found = completion_log_probs(self.model, pairs, batch=self.batch, temperature=self.temperature)
        return np.array([float(values.double().sum()) for values in found])

    def read(self, prompts: Sequence[Any], states: States) -> Sequence[Any]:
        """Return the answers as texts, without the end mark."""
        rows = [
            [token for token in row[:length].tolist() if token != self.end]
            for row, length in zip(states.tokens, states.lengths, strict=True)
        ]
        texts: list[str] = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts

    def probabilities(self, logits: torch.Tensor) -> Floats:
        """Return next-token probabilities, shape (n, V), of logits of that shape."""
        shares = torch.softmax(logits.double() / self.temperature, dim=-1)
        if self.top_p < 1:
            ordered, places = shares.sort(dim=-1, descending=True)
            # The token that crosses the mass belongs to the nucleus.
            ordered[ordered.cumsum(-1) - ordered >= self.top_p] = 0
            shares = torch.zeros_like(shares).scatter(-1, places, ordered)
        return np.asarray((shares / shares.sum(-1, keepdim=True)).cpu().numpy())

    def _ids(self, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            found: list[int] = self.tokenizer(prompt)["input_ids"]
            return found
        return [int(token) for token in prompt]

    @torch.no_grad()
    def _grow(
        self,
        prompts: Sequence[Any],
        groups: Integers,
        tokens: Integers,
        lengths: Integers,
        finished: np.ndarray,
        rows: Integers,
        uniform: Floats,
    ) -> None:
        """Extend some rows in place; equal prefixes are read once and their cache is copied."""
        prefixes: dict[tuple[int, ...], int] = {}
        which = []
        for row in rows.tolist():
            prefix = (*self._ids(prompts[groups[row]]), *tokens[row, : lengths[row]].tolist())
            which.append(prefixes.setdefault(prefix, len(prefixes)))
        ids, mask = self._padded(list(prefixes))
        positions = (mask.cumsum(-1) - 1).clamp_min(0)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        pick = torch.as_tensor(which, device=ids.device)
        name = cache_name(self.model)
        cache, logits = out[name], out.logits[:, -1][pick]
        cache.reorder_cache(pick)
        mask, place = mask[pick], positions[pick, -1:]
        room = np.minimum(uniform.shape[0], self.longest - lengths[rows])
        active = room > 0
        for number in range(uniform.shape[0]):
            drawn = choose(self.probabilities(logits), uniform[number])
            live = np.flatnonzero(active)
            tokens[rows[live], lengths[rows[live]]] = drawn[live]
            lengths[rows[live]] += 1
            ended = (drawn == self.end) | (lengths[rows] >= self.longest)
            finished[rows[live]] |= ended[live]
            active &= ~ended & (number + 1 < room)
            if not active.any():
                return
            place = place + 1
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=-1)
            step = torch.as_tensor(drawn, device=ids.device)[:, None]
            out = self.model(input_ids=step, attention_mask=mask, position_ids=place, use_cache=True, **{name: cache})
            cache, logits = out[name], out.logits[:, -1]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(row) for row in rows)
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, longest - len(row) :] = torch.as_tensor(row)
            mask[number, longest - len(row) :] = 1
        return ids.to(self.model.device), mask.to(self.model.device)

    @torch.no_grad()
    def _nucleus_log_prob(self, pair: TokenPair) -> float:
        ids = torch.as_tensor([[*pair.prompt, *pair.completion]], device=self.model.device)
        logits = self.model(input_ids=ids).logits[0, len(pair.prompt) - 1 : -1]
        if not len(logits):
            return 0.0
        shares = self.probabilities(logits)
        with np.errstate(divide="ignore"):
            return float(np.log(shares[np.arange(len(shares)), list(pair.completion)]).sum())
