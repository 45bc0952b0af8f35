r"""Synthetic preferences from private ones: one privacy guarantee, then as much preference data as one likes.

Give it unit embeddings of shape (N, d) of private chosen and rejected responses with their prompts (or a file in the
Hugging Face preference format), public prompts, and public responses to them or a model that writes some. It learns a
mixture of linear Bradley-Terry rewards under (epsilon, delta)-differential privacy for each record, prompts, texts and
labels included: principal directions of the differences, clusters of tastes, one reward a cluster. The rewards then
label the public responses, which costs no further privacy, for any DPO or RLHF trainer.

Use it where preferences must not leave the house but a preference set may, above all where people differ: the mixture
keeps tastes apart that one reward would average away. Not for fewer than some thousand records, where the noise wins;
not to protect a person with many records as a whole, since the guarantee is about one record; and not where one model
must serve opposite tastes, which no preference set can bring about. Public prompts must cover what the private ones are
about.

References:
    F. Gao, J. Yang, Differentially Private Preference Data Synthesis for Large Language Model Alignment, ICML 2026,
    arXiv:2605.30808.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Encoder",
    "Plan",
    "ResponseFile",
    "RewardMixture",
    "Rewards",
    "Sampling",
    "Settings",
    "Synthesis",
    "choose_pairs",
    "fit_rewards",
    "generate",
    "label_responses",
    "load_encoder",
    "plan_budget",
    "read_preferences",
    "read_prompts",
]
__getattr__ = lazy_names(
    __name__,
    {
        "budget": ["Plan", "Settings", "plan_budget"],
        "encoding": ["Encoder", "load_encoder"],
        "generation": ["ResponseFile", "Sampling", "generate"],
        "mixture": ["RewardMixture", "Rewards", "fit_rewards"],
        "synthesis": ["Synthesis", "choose_pairs", "label_responses"],
        "texts": ["read_preferences", "read_prompts"],
    },
)
