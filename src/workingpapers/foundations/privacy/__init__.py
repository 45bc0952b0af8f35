"""Differential privacy: noise, accounting, statements and audits, on OpenDP and dp-accounting."""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Audit",
    "Noise",
    "PrivacyStatement",
    "SecureNoise",
    "SeededNoise",
    "Stage",
    "audit",
    "compose",
    "compose_rdp",
    "gaussian_multiplier",
    "gaussian_stage",
    "noise_source",
    "pure_stage",
    "sampled_gaussian_stage",
]
__getattr__ = lazy_names(
    __name__,
    {
        "accounting": ["compose", "compose_rdp", "gaussian_multiplier"],
        "auditing": ["Audit", "audit"],
        "noise": ["Noise", "SecureNoise", "SeededNoise", "noise_source"],
        "statement": ["PrivacyStatement", "Stage", "gaussian_stage", "pure_stage", "sampled_gaussian_stage"],
    },
)
