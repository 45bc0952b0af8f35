"""``papers run bubblespec``: what drafts from idle windows would save on one's own prompts and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Count = Annotated[int, Between(1)]


def run(
    prompts: InputFile,
    *,
    out: OutputFile,
    model: str = "smollm2",
    next: str | None = None,
    change: Annotated[float, Between(0, 1)] = 0.001,
    samples: Annotated[int, Between(2)] = 4,
    max_tokens: Count = 64,
    temperature: Annotated[float, Between(0, 10)] = 1.0,
    top_p: Annotated[float, Between(0, 1, open_low=True)] = 1.0,
    ahead: Count = 8,
    independent: bool = False,
    ranks: Count = 8,
    batch: Count = 8,
    seed: Annotated[int, Between(0)] = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Write completions twice, with and without drafts of the model before an update; project what a cluster gains.

    Passes, acceptance, lengths and the time of a pass are measured; the gain of a cluster is simulated from them.

    Args:
        prompts: Records with a prompt, a text or a list of messages: JSON Lines, JSON, CSV or Parquet.
        out: JSON Lines file with prompt and completions; a second run goes on after the prompts that it holds.
        model: Folder or hub name of a causal language model, which writes the drafts; smollm2 for the packaged one, or
            tiny for a small one that follows pointers.
        next: The same model after an update, which writes the completions; by default the model with changed weights.
        change: Size of that change, in standard deviations of each tensor.
        samples: Completions a prompt.
        max_tokens: Most tokens of a completion.
        temperature: Temperature of the draws; 0 takes the likeliest token.
        top_p: Probability mass to draw from.
        ahead: Most draft tokens of a sequence in a pass.
        independent: Draft with noise of its own, to see what sharing it is worth.
        ranks: Ranks of the simulated cluster.
        batch: Prompts at a time.
        seed: Of the noise.
        report: HTML report.
    """
    from workingpapers.posttraining.bubblespec.measuring import Wanted, measure

    return measure(
        Wanted(
            prompts, Path(out), model, next, change, samples, max_tokens, temperature, top_p, ahead, independent, ranks,
            batch, seed, None if report is None else Path(report),
        ),
        progress,
    )  # fmt: skip
