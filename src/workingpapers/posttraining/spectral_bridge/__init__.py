r"""LoRA that finds its own ranks: give a largest rank, train once, keep in each layer the modes that the data support.

Attach it to a torch module or a transformers model, add one object to the training (a callback for transformers and TRL
trainers, a tuner on the optimiser elsewhere), and train on a mean negative log-likelihood. Each mode of each update
feels a friction that empirical Bayes sets from its own energy and from the number of training targets; the modes that
the data pull harder than that grow, the others die and are cut out while training goes on. What is saved at any moment
is a plain PEFT LoRA adapter with a rank pattern, which PEFT loads, merges and serves without this package.

Use it where nobody knows which layers need which rank, or where a large rank overfits a small data set. Not where the
loss has another scale than a log-likelihood (friction is weighed by 1/N, and a reward is no likelihood); not for
runs on several processes, since the optimiser's parameters change shape. Mind the ratio of N to the width m + n: a
mode must earn some (m + n) / 2N nats a target, so that a few thousand labels on layers a thousand wide lose most modes
at temperature 1, useful ones too (a temperature near 0.1 keeps more), and with very many targets friction hardly
matters. This is the MAP form of the variational method: the covariance of the Gaussian is not
carried along, though :func:`mode_precision` takes posterior variances and :func:`gaussian_flow` is the full flow.

    model = attach(base, rank=16)                                   # a PEFT model; factors of shape (m, r) and (r, n)
    tuner = SpectralTuner(model, optimizer, targets=len(labels))    # any torch loop
    trainer.add_callback(SpectralCallback())                        # or any transformers or TRL trainer
    model.save_pretrained("adapter")                                # PEFT's own

References:
    Y. Xi, Y.-F. Yu, C.-X. Ren, Z.-R. Lai, SBVI: Spectral Bridge Variational Inference - Dynamic LoRA via
    Bures-Wasserstein Gradient Flows, ICML 2026.
    M. Lambert et al., Variational inference via Wasserstein gradient flows, arXiv:2205.15902.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Balanced",
    "LayerSpectrum",
    "NoiseScale",
    "RankPaths",
    "SpectralCallback",
    "SpectralSettings",
    "SpectralTuner",
    "attach",
    "balance",
    "constant_friction_path",
    "count_targets",
    "effective_rank",
    "friction_penalty",
    "gaussian_flow",
    "implicit_friction",
    "law_constant",
    "mode_precision",
    "path_picture",
    "rank_picture",
    "spectra",
    "surviving",
]
__getattr__ = lazy_names(
    __name__,
    {
        "pictures": ["path_picture", "rank_picture"],
        "spectrum": [
            "Balanced",
            "balance",
            "constant_friction_path",
            "effective_rank",
            "friction_penalty",
            "gaussian_flow",
            "implicit_friction",
            "law_constant",
            "mode_precision",
            "surviving",
        ],
        "training": ["NoiseScale", "SpectralCallback", "count_targets"],
        "adapters": ["LayerSpectrum", "attach", "spectra"],
        "settings": ["RankPaths", "SpectralSettings"],
        "tuner": ["SpectralTuner"],
    },
)
