"""``papers run adpo``: preferences and a model in, a model that follows them out."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.run_folder import REPORT, SUMMARY, check_folder
from workingpapers.foundations.signature import Between, InputFile, OutputFolder

Positive = Annotated[float, Between(0, open_low=True)]
Count = Annotated[int, Between(1)]


def run(
    preferences: InputFile,
    *,
    out: OutputFolder,
    model: str = "tiny",
    adapter: str | None = None,
    units: Count | None = None,
    window: Count | None = None,
    normalize: Literal["none", "units"] = "none",
    beta: Positive = 0.1,
    learning_rate: Positive = 4e-5,
    epochs: Positive = 3.0,
    max_steps: Count | None = None,
    batch_size: Count = 2,
    accumulation: Count = 4,
    lora_rank: Annotated[int, Between(0, 4096)] = 16,
    max_length: Annotated[int, Between(2)] | None = None,
    held_out: Annotated[float, Between(0, 0.9)] = 0.1,
    save_every: Count = 50,
    tensorboard: bool = False,
    seed: Annotated[int, Between(0)] = 0,
    progress: Progress = silent,
) -> Outcome:
    """Train a language model on preferences that are compared piece by piece; a killed run goes on where it was.

    Args:
        preferences: JSON Lines file in TRL's preference format: prompt, chosen and rejected, texts or lists of
            messages.
        out: Folder for the model, checkpoints, summary and report; the same command goes on from its checkpoint.
        model: Folder of a model, name on a hub, smollm2 for the packaged SmolLM2-135M, or tiny for a model of single
            characters that sorts digits, trained on the spot.
        adapter: Folder of a PEFT adapter that is merged into the model first, as part of the reference too.
        units: Even units that each response is cut into; 1 is DPO. 256, as in the paper, without --units and --window.
        window: Tokens of a unit, in place of --units; 1 compares token with token.
        normalize: Divide the loss of a pair by its units, so that its scale does not grow with them.
        beta: Strength of the pull to the reference.
        learning_rate: Largest learning rate of AdamW, falling to zero after a warm-up of a tenth of the steps.
        epochs: Passes over the pairs.
        max_steps: Steps, in place of --epochs.
        batch_size: Pairs at a time.
        accumulation: Batches of a step.
        lora_rank: Rank of the LoRA adapter that is trained, with twice the rank as its alpha; 0 trains all weights.
        max_length: Most tokens of prompt and response; by default as many as the model reads.
        held_out: Share of the pairs that are kept for measuring.
        save_every: Steps between checkpoints.
        tensorboard: Write TensorBoard logs into the folder.
        seed: Seed of the split, the adapter and the order of the pairs.
    """
    import json

    from workingpapers.foundations.outcome import Table
    from workingpapers.posttraining.adpo import plan as plans
    from workingpapers.posttraining.adpo.preferences import read_preferences

    if units is not None and window is not None:
        raise InputError(f"--units {units} and --window {window} exclude each other; give one of them.")
    if units is None and window is None:
        units = 256
    plan = plans.Plan(
        model=model, adapter=adapter, units=units, window=window,
        normalize=normalize, beta=beta, learning_rate=learning_rate, epochs=epochs, max_steps=max_steps,
        batch_size=batch_size, accumulation=accumulation, lora_rank=lora_rank, max_length=max_length,
        held_out=held_out, save_every=save_every, seed=seed,
    )  # fmt: skip
    records = read_preferences(preferences)
    if check_folder(preferences, out, plan, "adpo"):
        facts = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
        summary = "This run was finished before. " + facts.pop("summary")
        files = [out / name for name in (plans.MODEL, SUMMARY, REPORT)]
        return Outcome(summary, [Table(("figure", "value"), list(facts.items()))], files=files, data=facts)
    from workingpapers.posttraining.adpo import fitting, results

    fitted = fitting.fit(records, preferences, out, plan, tensorboard=tensorboard, progress=progress)
    return results.present(fitted, plan, out)
