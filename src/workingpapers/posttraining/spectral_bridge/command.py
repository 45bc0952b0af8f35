"""``papers run spectral_bridge``: fine-tune a language model with LoRA that finds its own ranks."""

from __future__ import annotations

from typing import Annotated

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFolder

Positive = Annotated[float, Between(0, open_low=True)]


def run(
    data: InputFile,
    *,
    model: str,
    out: OutputFolder,
    test: InputFile | None = None,
    rank: Annotated[int, Between(1, 4096)] = 16,
    temperature: Annotated[float, Between(0, 1000)] = 1.0,
    modules: tuple[str, ...] = (),
    targets: Positive | None = None,
    warmup: Annotated[float, Between(0, 1, open_high=True)] = 0.2,
    learning_rate: Positive = 1e-3,
    batch_size: Annotated[int, Between(1)] = 8,
    epochs: Positive = 3.0,
    max_steps: Annotated[int, Between(1)] | None = None,
    seed: int = 0,
    tensorboard: bool = False,
    progress: Progress = silent,
) -> Outcome:
    """Fine-tune a causal language model on prompts and completions; the rank of each layer comes out.

    The folder gets the adapter (plain PEFT LoRA), the ranks as JSON and an HTML report with the rank paths. A run that
    was killed goes on from its last checkpoint when it is given again.

    Args:
        data: JSON Lines with prompt and completion, as texts or as lists of messages.
        model: Folder or hub name of a causal language model, "smollm2" for the packaged one, or "tiny" for a small
            one that is trained on the spot to sort digits.
        out: Folder for the adapter, the ranks, the report and the checkpoints.
        test: Held-out records of the same form; the loss on them is told before and after.
        rank: Largest rank of a layer.
        temperature: How hard modes are pruned: 1 is the Bayes posterior, 0 is plain LoRA; 0.1 may suit data sets of
            a few thousand targets.
        modules: Names of the linear modules to adapt, such as q_proj v_proj; all but the output head by default.
        targets: Number of independent training targets that friction is weighed against; by default the tokens of all
            completions.
        warmup: Share of the steps over which the temperature rises.
        learning_rate: AdamW's, falling along a cosine.
        batch_size: Records a step.
        epochs: Passes over the data.
        max_steps: Optimiser steps, in place of --epochs.
        seed: Of the adapter's first weights and of the order of the data.
        tensorboard: Log for TensorBoard into the folder of the checkpoints.
    """
    from workingpapers.posttraining.spectral_bridge.finetune import Request, run_request

    request = Request(
        data=data,
        model=model,
        out=out,
        test=test,
        rank=rank,
        temperature=temperature,
        modules=modules,
        targets=targets,
        warmup=warmup,
        learning_rate=learning_rate,
        batch_size=batch_size,
        epochs=epochs,
        max_steps=max_steps,
        seed=seed,
        tensorboard=tensorboard,
    )
    return run_request(request, progress)
