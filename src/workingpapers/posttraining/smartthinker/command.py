"""``papers run smartthinker``: prompts with answers and a model in, a model with shorter answers out."""

from __future__ import annotations

from typing import Annotated

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.run_folder import REPORT, SUMMARY, check_folder
from workingpapers.foundations.signature import Between, InputFile, OutputFolder, ProgramFile

Positive = Annotated[float, Between(0, open_low=True)]
Count = Annotated[int, Between(1)]


def run(
    prompts: InputFile,
    *,
    out: OutputFolder,
    model: str = "tiny",
    program: ProgramFile | None = None,
    function: str = "correct",
    pattern: str = r"-?\d[\d,]*(?:\.\d+)?",
    learning_rate: Positive = 1e-6,
    max_steps: Count = 100,
    prompts_per_step: Count = 8,
    generations: Annotated[int, Between(2)] = 8,
    batch_size: Count = 8,
    max_tokens: Count = 512,
    temperature: Annotated[float, Between(0, 10, open_low=True)] = 0.6,
    lora_rank: Annotated[int, Between(0, 4096)] = 0,
    held_out: Annotated[int, Between(1)] = 50,
    save_every: Count = 50,
    tensorboard: bool = False,
    seed: Annotated[int, Between(0)] = 0,
    progress: Progress = silent,
) -> Outcome:
    """Train a language model by GRPO to answer shortly where it can; a killed run goes on where it was.

    Args:
        prompts: Records with prompt, a text or a list of messages, and answer or solution; JSON Lines, JSON, CSV or
            Parquet.
        out: Folder for the model, checkpoints, summary and report; the same command goes on from its checkpoint.
        model: Folder of a model, name on a hub, smollm2 for the packaged SmolLM2-135M, or tiny for a model of single
            characters that follows pointers, trained on the spot.
        program: Python file with a correctness function: a reward function of TRL, called with prompts, completions
            and the columns as lists, that returns 1, 0 or None for each; without it --pattern judges.
        function: Name of the function in the program.
        pattern: Regular expression whose last match in a completion must be its last match in the answer; numbers are
            compared as such.
        learning_rate: Learning rate of AdamW, constant.
        max_steps: Steps.
        prompts_per_step: Prompts of a step.
        generations: Completions a prompt, from which its target length is estimated; more make it less noisy.
        batch_size: Completions at a time; it divides prompts times generations.
        max_tokens: Most tokens of a completion; one that is cut off counts as wrong.
        temperature: Temperature of the draws.
        lora_rank: Rank of a LoRA adapter that is trained, with twice the rank as its alpha; 0 trains all weights.
        held_out: Prompts that are kept for measuring before and after.
        save_every: Steps between checkpoints.
        tensorboard: Write TensorBoard logs into the folder.
        seed: Seed of the split, the order, the adapter and the draws.
    """
    import json

    from workingpapers.foundations.outcome import Table
    from workingpapers.posttraining.smartthinker import plan as plans

    plan = plans.Plan(
        model=model, program=None if program is None else str(program), function=function, pattern=pattern,
        learning_rate=learning_rate, max_steps=max_steps, prompts_per_step=prompts_per_step, generations=generations,
        batch_size=batch_size, max_tokens=max_tokens, temperature=temperature, lora_rank=lora_rank, held_out=held_out,
        save_every=save_every, seed=seed,
    )  # fmt: skip
    if prompts_per_step * generations % batch_size:
        raise InputError(
            f"--batch-size {batch_size} does not divide the {prompts_per_step * generations} completions of a step; "
            "choose one that does."
        )
    records = plans.read_prompts(prompts, None if program else pattern)
    if len(records) - held_out < prompts_per_step:
        raise InputError(
            f"{str(prompts)!r} holds {len(records)} prompts; --held-out {held_out} leaves {len(records) - held_out}, "
            f"fewer than --prompts-per-step {prompts_per_step}."
        )
    if check_folder(prompts, out, plan, "smartthinker"):
        facts = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
        summary = "This run was finished before. " + facts.pop("summary")
        files = [out / name for name in (plans.MODEL, SUMMARY, REPORT)]
        return Outcome(summary, [Table(("figure", "value"), list(facts.items()))], files=files, data=facts)
    from workingpapers.posttraining.smartthinker import fitting, results

    fitted = fitting.fit(records, prompts, out, plan, tensorboard=tensorboard, progress=progress)
    return results.present(fitted, plan, out)
