r"""Samples of the policy that reinforcement learning would converge to, drawn from the untrained model at test time.

Give it a causal language model of transformers (or a masked-diffusion model, or tables) and a reward of finished
answers. It draws from :math:`p^*(x) \propto p_{ref}(x)\, e^{r(x)/\lambda}`: the answer grows block by block, each of M
candidate blocks is followed by K completions, and one is drawn in proportion to the mean of :math:`e^{r/\lambda}` over
its completions. With a cheaper model for the completions importance weights keep the target.

Use it where a reward can be computed and training is no option, and where the knob lambda should mean what it means in
training. Best-of-N is the limit of lambda towards zero with one block, at the same number of tokens often a strong
rival, and majority voting uses the same signal as the self-consistency reward: compare both. The error falls with the
number of candidates; with few of them and a small lambda the samples are far from p*.

References:
    X. Li, J. Zhang, M. Yi, Y. Li, L. Wang, Y. Wang, J. Fan, ETS: Energy-Guided Test-Time Scaling for Training-Free RL
    Alignment, ICML 2026, arXiv:2601.21484.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "CausalChain",
    "EnergyGuidedOutput",
    "EnergyGuidedSampler",
    "MaskedChain",
    "SelfConsistency",
    "States",
    "Step",
    "TableChain",
    "Tokens",
    "Verifier",
    "best_of",
    "custom_generate",
    "log_energy",
    "majority_vote",
    "optimal_success",
]
__getattr__ = lazy_names(
    __name__,
    {
        "causal": ["CausalChain"],
        "energy": ["log_energy", "optimal_success"],
        "generation": ["custom_generate"],
        "masked": ["MaskedChain"],
        "rewards": ["SelfConsistency", "Verifier"],
        "rivals": ["best_of", "majority_vote"],
        "sampler": ["EnergyGuidedOutput", "EnergyGuidedSampler", "Step", "Tokens"],
        "states": ["States"],
        "tables": ["TableChain"],
    },
)
