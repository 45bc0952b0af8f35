"""``papers run condorcet_nash``: cycles, winner, reward and Nash policy of the preferences in a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run(
    preferences: InputFile,
    *,
    format: Literal["auto", "log", "rankings", "matrix"] = "auto",
    prompt: str | None = None,
    pool: bool = False,
    comparisons: Annotated[int, Between(1)] | None = None,
    tau: Annotated[float, Between(0)] = 0.0,
    alpha: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 0.05,
    draws: Annotated[int, Between(10, 1_000_000)] = 1000,
    seed: int = 0,
    out: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Say whether a reward can represent these preferences, and what policy to use where none can.

    Args:
        preferences: A table. Log of comparisons with columns winner and loser, or first, second and outcome (1, 0, 0.5
            or a name), with or without prompt; rankings, one labeler a row, names best first or one column a response
            with its rank; or a square matrix of shares or of numbers of wins.
        format: What the file is; told from its content by default.
        prompt: The prompt to look at in detail; the first one by default.
        pool: Take all prompts of a log together, as for a comparison of models.
        comparisons: Comparisons behind each pair, where the file holds shares and not counts.
        tau: Regularisation of the policy towards the uniform one; 0 for the Nash policy itself.
        alpha: Probability of certifying a cycle that is not there.
        draws: Draws from the posterior.
        seed: Seed of the draws.
        out: CSV file for the policy, one row a prompt and response.
        report: HTML report with the preference graph and the policy.
    """
    from workingpapers.preferences.condorcet_nash import analysis
    from workingpapers.preferences.condorcet_nash.tables import read_preferences

    if 0 < tau < analysis.FLOOR:
        raise InputError(f"--tau is {tau:g}; give 0 or at least {analysis.FLOOR:g}.")
    kind, prompts = read_preferences(preferences, None if format == "auto" else format, pool=pool)
    names = [item.prompt for item in prompts]
    chosen = 0
    if prompt is not None:
        if prompt not in names:
            hint = near_match(prompt, names) or "; see the column prompt of the file."
            raise InputError(f"There is no prompt {prompt!r}{hint}")
        chosen = names.index(prompt)
    options: dict[str, Any] = {"comparisons": comparisons, "tau": tau, "alpha": alpha, "draws": draws, "seed": seed}
    results = analysis.analyse_all(prompts, progress=progress, **options)
    return analysis.present(kind, results, chosen, out=out, report=report)
