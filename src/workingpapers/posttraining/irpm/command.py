"""``papers run irpm train``: pairs in, a judge out. ``papers run irpm rank``: candidates in, ranked ones out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.run_folder import REPORT, SUMMARY, check_folder
from workingpapers.foundations.signature import Between, InputFile, OutputFile, OutputFolder

Positive = Annotated[float, Between(0, open_low=True)]
Count = Annotated[int, Between(1)]
Comparison = Literal["mean", "margin", "win_rate", "auc", "quantile", "mean_median", "interval", "dead_zone"]


def run_train(
    preferences: InputFile,
    *,
    out: OutputFolder,
    model: str = "tiny",
    template: InputFile | None = None,
    kind: Comparison = "mean",
    pairs: Count = 8,
    judgements: Annotated[int, Between(2)] = 4,
    batch_size: Count = 8,
    learning_rate: Positive | None = None,
    beta: Annotated[float, Between(0)] = 0.001,
    epochs: Positive = 2.0,
    max_steps: Count | None = None,
    max_tokens: Count | None = None,
    lora_rank: Annotated[int, Between(0, 4096)] = 16,
    held_out: Annotated[float, Between(0, 0.9)] = 0.1,
    measured: Count = 200,
    save_every: Count = 50,
    tensorboard: bool = False,
    seed: Annotated[int, Between(0)] = 0,
    progress: Progress = silent,
) -> Outcome:
    """Train a judge that scores one response at a time from pairs alone; a killed run goes on where it was.

    Args:
        preferences: JSON Lines file in TRL's preference format: prompt, chosen, rejected, and strength where known.
        out: Folder for the judge, checkpoints, summary and report; the same command goes on from its checkpoint.
        model: Folder of a model, name on a hub, smollm2 for the packaged SmolLM2-135M, or tiny for a model of single
            characters that judges four digits (7173) by how many equal a key (7), taught on the spot.
        template: Text file with the judge's prompt, holding {prompt} and {response} and asking for
            <critique>...</critique><score>...</score> with a score from 0 to 10.
        kind: How the scores of the two responses are compared; margin needs strengths.
        pairs: Pairs of a step; 48 in the paper.
        judgements: Judgements of each response.
        batch_size: Judgements at a time in the backward pass; it divides 2 x pairs x judgements.
        learning_rate: Largest learning rate, falling along a cosine; by default 5e-6 for all weights, 5e-5 for an
            adapter and 1e-3 for tiny.
        beta: Strength of the pull to the judge before training.
        epochs: Passes over the pairs.
        max_steps: Steps, in place of --epochs.
        max_tokens: Most tokens of a judgement, 512 by default.
        lora_rank: Rank of the LoRA adapter that is trained; 0 trains all weights.
        held_out: Share of the pairs that are kept for measuring.
        measured: Most pairs that are measured before and after.
        save_every: Steps between checkpoints.
        tensorboard: Write TensorBoard logs into the folder.
        seed: Seed of the split, the order of the pairs and the samples.
    """
    import json

    from workingpapers.foundations.files import read_text
    from workingpapers.foundations.outcome import Table
    from workingpapers.posttraining.irpm import plan as plans
    from workingpapers.posttraining.irpm.preferences import read_preferences

    text = None if template is None else read_text(template)
    plan = plans.Plan(
        model=model, template=text, kind=kind, pairs=pairs, judgements=judgements, batch_size=batch_size,
        learning_rate=learning_rate, beta=beta, epochs=epochs, max_steps=max_steps, max_tokens=max_tokens,
        lora_rank=lora_rank, held_out=held_out, measured=measured, save_every=save_every, seed=seed,
    )  # fmt: skip
    records = read_preferences(preferences)
    if check_folder(preferences, out, plan, "irpm", unshown=("template",)):
        facts = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
        summary = "This run was finished before. " + facts.pop("summary")
        files = [out / name for name in ("model", "judge.json", SUMMARY, REPORT)]
        return Outcome(summary, [Table(("figure", "value"), list(facts.items()))], files=files, data=facts)
    from workingpapers.posttraining.irpm import fitting, results

    fitted = fitting.fit(records, preferences, out, plan, tensorboard=tensorboard, progress=progress)
    return results.present(fitted, plan, out)


def run_rank(
    candidates: InputFile,
    *,
    judge: Path,
    out: OutputFile,
    votes: Count = 1,
    batch_size: Count = 16,
    report: OutputFile | None = None,
    seed: Annotated[int, Between(0)] = 0,
    progress: Progress = silent,
) -> Outcome:
    """Rank the responses to each request with a trained judge, one call a response.

    Args:
        candidates: JSON Lines file: prompt and responses (a list), or prompt, chosen and rejected.
        judge: Folder that the training command wrote.
        out: JSON Lines file to write: each request with its responses, best first, with rank, score and critique.
        votes: Judgements of each response; one is greedy, more are sampled and their scores averaged.
        batch_size: Judgements at a time.
        report: HTML report with a figure of the scores.
        seed: Seed of sampled judgements.
    """
    from workingpapers.posttraining.irpm.preferences import read_candidates

    records = read_candidates(candidates)
    from workingpapers.foundations.language import calm
    from workingpapers.posttraining.irpm import results
    from workingpapers.posttraining.irpm.storing import load_judge

    with calm():
        found = load_judge(judge, votes=votes, batch=batch_size, seed=seed, progress=part(progress, 0, 0.5))
        return results.rank(found, records, out, report)
