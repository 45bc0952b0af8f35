"""``papers run ets``: answers to the prompts of a file by energy-guided sampling, or by a rival."""

from __future__ import annotations

from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile, ProgramFile


def run(
    prompts: InputFile,
    *,
    out: OutputFile,
    model: str = "smollm2",
    program: ProgramFile | None = None,
    function: str = "reward",
    answer: str = r"-?\d[\d,]*(?:\.\d+)?",
    method: Literal["ets", "best", "vote", "plain"] = "ets",
    candidates: Annotated[int, Between(1, 10_000)] = 8,
    rollouts: Annotated[int, Between(1, 1000)] = 2,
    block: Annotated[int, Between(1, 100_000)] = 32,
    tradeoff: Annotated[float, Between(0, open_low=True)] = 0.1,
    proposal: str | None = None,
    temperature: Annotated[float, Between(0, 10, open_low=True)] = 0.7,
    top_p: Annotated[float, Between(0, 1, open_low=True)] = 1.0,
    max_tokens: Annotated[int, Between(1, 100_000)] = 128,
    batch: Annotated[int, Between(1, 10_000)] = 32,
    seed: Annotated[int, Between(0)] = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Answer prompts with a model as if it had been trained by reinforcement for a reward.

    Args:
        prompts: Records with a prompt, a text or a list of messages: JSON Lines, JSON, CSV or Parquet.
        out: JSON Lines file with prompt and completion; a second run goes on after the prompts that it holds.
        model: Folder or hub name of a causal language model, or smollm2 for the packaged one.
        program: Python file with a reward, called with prompts and completions (lists of texts), that returns numbers;
            without it the reward is agreement among the completions.
        function: Name of the reward in the program.
        answer: Regular expression whose last match is a completion's answer, for agreement and votes.
        method: ets; best for best-of-N, vote for the majority, plain for a single draw, to compare.
        candidates: Blocks to choose from, and answers for best and vote.
        rollouts: Completions of each block.
        block: Tokens of a block.
        tradeoff: Lambda: how much leaving the model costs against the reward; small values choose more sharply.
        proposal: Smaller model with the same vocabulary that writes the completions.
        temperature: Temperature of the model's own draws.
        top_p: Probability mass to draw from.
        max_tokens: Most tokens of an answer.
        batch: Answers at a time.
        seed: Seed of the first prompt; prompt n has seed + n.
        report: HTML report.
    """
    from workingpapers.posttraining.ets.running import Request, run_request

    return run_request(
        Request(
            prompts, out, model, program, function, answer, method, candidates, rollouts, block, tradeoff, proposal,
            temperature, top_p, max_tokens, batch, seed, report,
        ),
        progress,
    )  # fmt: skip
