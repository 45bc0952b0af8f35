"""Energy-guided sampling inside ``model.generate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from workingpapers.posttraining.ets.causal import CausalChain
from workingpapers.posttraining.ets.rewards import Reward
from workingpapers.posttraining.ets.sampler import EnergyGuidedSampler


def custom_generate(tokenizer: Any, reward: Reward, *, seed: int = 0, **options: Any) -> Callable[..., Tensor]:
    """Return a strategy for ``model.generate(**inputs, custom_generate=strategy)``.

    Temperature, top_p and max_new_tokens are read from the call, as for other strategies.

    Args:
        tokenizer: The model's tokenizer; rewards see its texts.
        reward: Reward of finished answers; its prompts are texts.
        seed: Seed of the first query.
        **options: Of :class:`~.sampler.EnergyGuidedSampler`; `temperature` there is lambda, not that of the logits.
    """

    def strategy(model: Any, input_ids: Tensor, *, generation_config: Any, **others: Any) -> Tensor:
        attention_mask = others.get("attention_mask")  # `generate` would take a parameter of this name for its own
        longest = generation_config.max_length - input_ids.shape[1]
        chain = CausalChain(
            model,
            tokenizer,
            longest=longest,
            temperature=generation_config.temperature or 1.0,
            top_p=generation_config.top_p or 1.0,
        )
        kept = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        prompts = [row[mask.bool()].tolist() for row, mask in zip(input_ids, kept, strict=True)]

        def readable(prompts: Sequence[Any], completions: Sequence[Any], groups: Any) -> Any:
            return reward(tokenizer.batch_decode(prompts, skip_special_tokens=True), completions, groups)

        found = EnergyGuidedSampler(chain, readable, **options).sample(prompts, seeds=seed)
        most = int(found.states.lengths.max())
        fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else chain.end
        answers = torch.full((len(prompts), most), fill, dtype=input_ids.dtype)
        for row, (tokens, length) in enumerate(zip(found.states.tokens, found.states.lengths.tolist(), strict=True)):
            answers[row, :length] = torch.as_tensor(tokens[:length])
        return torch.cat([input_ids, answers.to(input_ids.device)], dim=-1)

    return strategy
