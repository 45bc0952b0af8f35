r"""Can a reward represent these preferences, and if none can, what policy should be used? Diagnosis and solution.

Give it pairwise preferences over n candidate responses: counts of comparisons, rankings of a panel, a judge, or a
matrix P of shape (n, n). It tells whether any scalar reward represents the majority (there is none exactly when the
majority has a Condorcet cycle), with the cycle as the proof and with what the sample size allows to say; and it solves
the preference game :math:`\max_\pi \min_{\pi'} \pi^\top P \pi'`, whose Nash policy is one response exactly when that
response beats every other and a mixture of several otherwise.

Use it before fitting a reward to preferences of different people, to compare models that beat each other in circles, or
to choose a policy that no alternative beats. Not for training a language model: the policies are over given responses.
A small number of comparisons makes cycles by noise alone; trust the certificate, not the counts. That cycles become
certain with many responses is a theorem about people whose rankings are random; real tastes agree more.

References:
    K. Liu, Q. Long, Z. Shi, W. J. Su, J. Xiao, Statistical Impossibility and Possibility of Aligning LLMs with Human
    Preferences: From Condorcet Paradox to Nash Equilibrium, ICML 2026, arXiv:2503.10990.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workingpapers.preferences.condorcet_nash.game import NashPolicy, nash_policy, worst_case_win_rate
    from workingpapers.preferences.condorcet_nash.judging import (
        Collected,
        chat_judge,
        collect_preferences,
        parse_verdict,
    )
    from workingpapers.preferences.condorcet_nash.learning import nash_md, regularised_policy, self_play
    from workingpapers.preferences.condorcet_nash.luce import (
        Probabilities,
        exact_probabilities,
        sample_rankings,
        simulate,
        winner_probability,
    )
    from workingpapers.preferences.condorcet_nash.matrices import (
        check_preferences,
        votes_from_rankings,
        votes_from_ranks,
        win_rates,
        wins_from_votes,
    )
    from workingpapers.preferences.condorcet_nash.posterior import (
        Posterior,
        certified_cycle,
        edge_posterior,
        panel_posterior,
    )
    from workingpapers.preferences.condorcet_nash.reward import RewardFit, curl_share, fit_reward
    from workingpapers.preferences.condorcet_nash.tournament import Cycle, Diagnosis, diagnose

_HOMES = {
    "game": ("NashPolicy", "nash_policy", "worst_case_win_rate"),
    "judging": ("Collected", "chat_judge", "collect_preferences", "parse_verdict"),
    "learning": ("nash_md", "regularised_policy", "self_play"),
    "luce": ("Probabilities", "exact_probabilities", "sample_rankings", "simulate", "winner_probability"),
    "matrices": ("check_preferences", "votes_from_rankings", "votes_from_ranks", "win_rates", "wins_from_votes"),
    "posterior": ("Posterior", "certified_cycle", "edge_posterior", "panel_posterior"),
    "reward": ("RewardFit", "curl_share", "fit_reward"),
    "tournament": ("Cycle", "Diagnosis", "diagnose"),
}

__all__ = [
    "Collected",
    "Cycle",
    "Diagnosis",
    "NashPolicy",
    "Posterior",
    "Probabilities",
    "RewardFit",
    "certified_cycle",
    "chat_judge",
    "check_preferences",
    "collect_preferences",
    "curl_share",
    "diagnose",
    "edge_posterior",
    "exact_probabilities",
    "fit_reward",
    "nash_md",
    "nash_policy",
    "panel_posterior",
    "parse_verdict",
    "regularised_policy",
    "sample_rankings",
    "self_play",
    "simulate",
    "votes_from_rankings",
    "votes_from_ranks",
    "win_rates",
    "winner_probability",
    "wins_from_votes",
    "worst_case_win_rate",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
