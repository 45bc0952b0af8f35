"""From preferences to an answer: everything that the command computes, writes and says."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.preferences.condorcet_nash.game import NashPolicy, nash_policy, worst_case_win_rate
from workingpapers.preferences.condorcet_nash.learning import FLOOR, regularised_policy
from workingpapers.preferences.condorcet_nash.pictures import preference_picture, prompts_picture
from workingpapers.preferences.condorcet_nash.posterior import (
    Posterior,
    certified_cycle,
    edge_posterior,
    panel_posterior,
)
from workingpapers.preferences.condorcet_nash.reward import RewardFit, fit_reward, reward_of_shares
from workingpapers.preferences.condorcet_nash.tables import Preferences
from workingpapers.preferences.condorcet_nash.tournament import Cycle, Diagnosis, diagnose

__all__ = ["FLOOR", "Analysis", "analyse", "analyse_all", "present"]


@dataclass(frozen=True)
class Analysis:
    """The answer for one prompt.

    Args:
        data: The preferences.
        game: P of the game, shape (n, n): pairs never compared enter as one half.
        diagnosis: Of the observed majority relation.
        nash: Nash policy of the observed game.
        policy: The policy asked for: `nash`, or the regularised one.
        reward: Bradley-Terry fit.
        certificate: A certified cycle, or None.
        posterior: None where only shares are known.
    """

    data: Preferences
    game: np.ndarray
    diagnosis: Diagnosis
    nash: NashPolicy
    policy: NashPolicy
    reward: RewardFit
    certificate: Cycle | None
    posterior: Posterior | None


def analyse_all(prompts: Sequence[Preferences], *, progress: Progress = silent, **options: Any) -> list[Analysis]:
    """Analyse each prompt; see :func:`analyse` for the options.

    Args:
        prompts: Preferences of each prompt.
        progress: Called along the way.
        **options: Options of :func:`analyse`.
    """
    return [
        analyse(item, progress=part(progress, k / len(prompts), (k + 1) / len(prompts)), **options)
        for k, item in enumerate(prompts)
    ]


def analyse(
    data: Preferences,
    *,
    comparisons: int | None = None,
    tau: float = 0.0,
    alpha: float = 0.05,
    draws: int = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> Analysis:
    """Diagnose preferences and solve their game.

    Args:
        data: The preferences of n responses.
        comparisons: Comparisons behind each share, where the data hold no counts.
        tau: Regularisation; 0 for the Nash policy.
        alpha: Level of the cycle certificate.
        draws: Posterior draws.
        seed: Seed of the draws.
        progress: Called along the way.

    Raises:
        InputError: No pair was compared, or `comparisons` is given for data that hold counts.
    """
    if comparisons is not None:
        if data.wins is not None:
            raise InputError("The file holds counts already; leave --comparisons out.")
        wins = np.nan_to_num(data.rates) * comparisons
        np.fill_diagonal(wins, 0.0)
        data = replace(data, wins=wins)
    if not (~np.isnan(data.rates[np.triu_indices(len(data.names), 1)])).any():
        raise InputError("No pair of responses was compared; give at least one comparison.")
    rng = np.random.default_rng(seed)
    game = np.where(np.isnan(data.rates), 0.5, data.rates)
    nash = nash_policy(game)
    posterior, certificate = None, None
    if data.wins is not None:
        reward = fit_reward(data.wins, rng=rng, test=not data.ranked, progress=part(progress, 0.0, 0.5))
        certificate = certified_cycle(data.wins, alpha)
        inner = part(progress, 0.5, 1.0)
        if data.votes is not None:
            posterior = panel_posterior(data.votes, rng=rng, draws=draws, tau=tau, progress=inner)
        else:
            posterior = edge_posterior(data.wins, rng=rng, draws=draws, tau=tau, progress=inner)
    else:
        reward = reward_of_shares(game)
    policy = regularised_policy(game, tau) if tau > 0 else nash
    return Analysis(data, game, diagnose(data.rates), nash, policy, reward, certificate, posterior)


def present(
    kind: str, results: Sequence[Analysis], chosen: int, *, out: Path | None = None, report: Path | None = None
) -> Outcome:
    """Write the files asked for and return the sentences, tables and figures.

    Args:
        kind: Format of the input.
        results: One analysis a prompt.
        chosen: Index of the prompt to show in detail.
        out: CSV of the policies.
        report: HTML report.
    """
    item = results[chosen]
    tables = [*([_overview(results)] if len(results) > 1 else []), _responses(item), _facts(item)]
    figures: list[Figure] = []
    if len(results) > 1 and all(result.posterior for result in results):
        cycle = [result.posterior.cycle for result in results if result.posterior]
        figures.append(
            prompts_picture([r.data.prompt for r in results], cycle, [r.diagnosis.has_cycle for r in results])
        )
    title = "Nash policy" if item.policy is item.nash else "Regularised policy"
    certified = item.certificate is not None
    figures.append(preference_picture(item.data, item.diagnosis, item.policy.policy, item.posterior, certified, title))
    summary = _summary(item)
    if len(results) > 1:
        cyclic = sum(result.diagnosis.has_cycle for result in results)
        sure = sum(result.certificate is not None for result in results)
        summary = (
            f"{cyclic} of {len(results)} prompts show a cycle, {sure} of them certified. "
            f"Prompt {item.data.prompt!r}: {summary}"
        )
    files: list[Path] = []
    if out is not None:
        _write_policies(out, results)
        files.append(out)
    if report is not None:
        write_report(report, "Preferences: cycles and the Nash policy", [paragraph(summary), *figures, *tables])
        files.append(report)
    return Outcome(summary, tables, figures, files, {"format": kind, "prompts": [_data(result) for result in results]})


def _summary(item: Analysis) -> str:
    names, diagnosis = item.data.names, item.diagnosis
    if diagnosis.cycle:
        path = " > ".join(names[i] for i in (*diagnosis.cycle.responses, diagnosis.cycle.responses[0]))
        sure = "it is certified" if item.certificate else "there are too few comparisons to certify it"
        first = f"The preferences contain the cycle {path}, which no reward can represent; {sure}."
        if item.data.wins is None:
            first = f"The preferences contain the cycle {path}, which no reward can represent."
    elif not diagnosis.representable:
        first = "Ties and majorities contradict each other, so that no reward represents the preferences."
    else:
        first = "There is no cycle: a reward can represent who beats whom."
        if item.reward.p_value is not None and item.reward.p_value < 0.01:
            first += f" A Bradley-Terry reward still misfits the shares (p = {item.reward.p_value:.2g})."
    policy = item.policy
    if diagnosis.winner is not None:
        second = f"{names[diagnosis.winner]!r} beats every other response"
        second += " and is the Nash policy." if policy is item.nash else "."
    else:
        kept = len(policy.support)
        second = (
            f"No response beats all others; the {'Nash' if policy is item.nash else 'regularised'} policy keeps {kept} "
            f"response{'s' if kept > 1 else ''} and wins at least {policy.worst_case_win_rate:.3f} against any."
        )
    third = ""
    if diagnosis.unknown:
        third = (
            f" {diagnosis.unknown} pairs were never compared; they enter the game as coin flips, and nothing is "
            "claimed about them."
        )
    elif not item.nash.unique and policy is item.nash:
        third = " Several policies solve the game; this is the one of largest entropy."
    return f"{first} {second}{third}"


def _responses(item: Analysis) -> Table:
    policy, posterior = item.policy.policy, item.posterior
    columns = ["response", "policy", "5 %", "95 %", "P(winner)", "P(Smith)", "beats", "reward"]
    n = len(policy)
    rows = []
    for i in sorted(range(n), key=lambda k: (-policy[k], -item.diagnosis.copeland[k], k)):
        inferred = (
            [float(posterior.low[i]), float(posterior.high[i]), float(posterior.winner[i]), float(posterior.smith[i])]
            if posterior
            else [None] * 4
        )
        rows.append(
            [item.data.names[i], float(policy[i]), *inferred, float(item.diagnosis.copeland[i]),
             float(item.reward.strengths[i])]
        )  # fmt: skip
    note = "beats: responses beaten, ties half. reward: Bradley-Terry, in log-odds."
    if posterior:
        note += f" Interval and probabilities {posterior.assumption}."
    return Table(columns, rows, "Responses", note)


def _facts(item: Analysis) -> Table:
    diagnosis, reward, names = item.diagnosis, item.reward, item.data.names
    cycle = diagnosis.cycle
    best = np.zeros(len(names))
    best[reward.best] = 1.0
    rows: list[list[Any]] = [
        ["some reward represents the preferences", diagnosis.representable],
        ["strongest cycle", " > ".join(names[i] for i in cycle.responses) if cycle else None],
        ["its weakest majority", 0.5 + cycle.margin if cycle else None],
        ["cycles of three", diagnosis.three_cycles],
        ["posterior probability of a cycle", item.posterior.cycle if item.posterior else None],
        ["cycle certified", item.certificate is not None if item.data.wins is not None else None],
        ["Condorcet winner", None if diagnosis.winner is None else names[diagnosis.winner]],
        ["Smith set", ", ".join(names[i] for i in diagnosis.smith_set)],
        ["effective number of responses kept", item.policy.effective_size],
        ["worst-case win rate of the policy", item.policy.worst_case_win_rate],
        ["response of largest Bradley-Terry reward", names[reward.best]],
        ["its worst-case win rate", worst_case_win_rate(best, item.game)],
        ["share of the log-odds that no reward explains", reward.curl_share],
        ["p-value of the Bradley-Terry fit", reward.p_value],
        ["tied pairs", diagnosis.ties],
        ["pairs never compared", diagnosis.unknown],
    ]
    return Table(["", "value"], rows, "Diagnosis")


def _overview(results: Sequence[Analysis]) -> Table:
    columns = ["prompt", "responses", "cycle", "P(cycle)", "certified", "winner", "effective number", "curl share"]
    rows = [
        [
            item.data.prompt, len(item.data.names), item.diagnosis.has_cycle,
            item.posterior.cycle if item.posterior else None, item.certificate is not None,
            None if item.diagnosis.winner is None else item.data.names[item.diagnosis.winner],
            item.policy.effective_size, item.reward.curl_share,
        ]
        for item in results
    ]  # fmt: skip
    return Table(columns, rows, "Prompts")


def _write_policies(path: Path, results: Sequence[Analysis]) -> None:
    with whole_file(path, newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["prompt", "response", "policy", "low", "high"])
        for item in results:
            for i, name in enumerate(item.data.names):
                interval = (item.posterior.low[i], item.posterior.high[i]) if item.posterior else ("", "")
                writer.writerow([item.data.prompt, name, item.policy.policy[i], *interval])


def _data(item: Analysis) -> dict[str, Any]:
    diagnosis, names, posterior = item.diagnosis, item.data.names, item.posterior
    by_name = {name: float(share) for name, share in zip(names, item.policy.policy, strict=True)}
    return {
        "prompt": item.data.prompt,
        "responses": list(names),
        "representable": diagnosis.representable,
        "cycle": [names[i] for i in diagnosis.cycle.responses] if diagnosis.cycle else None,
        "cycle_margin": diagnosis.cycle.margin if diagnosis.cycle else None,
        "certified_cycle": [names[i] for i in item.certificate.responses] if item.certificate else None,
        "condorcet_winner": None if diagnosis.winner is None else names[diagnosis.winner],
        "smith_set": [names[i] for i in diagnosis.smith_set],
        "policy": by_name,
        "worst_case_win_rate": item.policy.worst_case_win_rate,
        "effective_size": item.policy.effective_size,
        "unique": item.nash.unique,
        "reward_best": names[item.reward.best],
        "curl_share": item.reward.curl_share,
        "bradley_terry_p_value": item.reward.p_value,
        "unknown_pairs": diagnosis.unknown,
        "posterior": None
        if posterior is None
        else {
            "assumption": posterior.assumption,
            "cycle": posterior.cycle,
            "winner": dict(zip(names, map(float, posterior.winner), strict=True)),
            "smith": dict(zip(names, map(float, posterior.smith), strict=True)),
            "policy_low": dict(zip(names, map(float, posterior.low), strict=True)),
            "policy_high": dict(zip(names, map(float, posterior.high), strict=True)),
        },
    }
