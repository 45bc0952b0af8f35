"""The claims: distance at equal gradients, energies, modes, few steps, wells, a sphere, and forms that must fail."""

from __future__ import annotations

from functools import partial

from workingpapers.replication.claim import Claim, Size
from workingpapers.sampling.flow_sampling import experiments as arms

SIZES = {
    "smallest": Size(2, {"rounds": 4, "updates": 10, "new_samples": 128}),
    "small": Size(5, {"rounds": 60, "updates": 40, "new_samples": 512}),
    "full": Size(10, {"rounds": 200, "updates": 100, "new_samples": 1024}),
}
FLOW = partial(arms.learned, method="flow")
RIVALS = {
    "Adjoint Sampling, noise 1": partial(arms.learned, method="adjoint"),
    "Adjoint Sampling, noise 4": partial(arms.learned, method="adjoint_wide"),
    "Adjoint Sampling, geometric": partial(arms.learned, method="adjoint_geometric"),
}
CHAINS = {
    "Langevin": partial(arms.chains, adjusted=False),
    "MALA": partial(arms.chains, adjusted=True),
}
TUNED = (
    "The noise of Adjoint Sampling was chosen on three other seeds from eleven settings: constant noise 1 is the best "
    "by energies, geometric noise from 2 to 0.1 the best by the distance of the samples, and constant noise 4 is what "
    "a ring of radius 4 suggests. Clip (30), network, optimiser and path length are the same for all. "
)

CLAIM = Claim(
    name="headline",
    statement="On a ring of eight Gaussians, with 30,720 gradients of the log-density each, samples of Flow "
    "Sampling are nearer to exact ones (W2) than those of Adjoint Sampling with three kinds of noise and of "
    "unadjusted Langevin chains.",
    metric="w2",
    direction="lower",
    arms={
        "Flow Sampling": FLOW,
        "Flow Sampling, strength 4": partial(FLOW, strength=4.0),
        **RIVALS,
        **CHAINS,
        "exact samples": arms.exact,
    },
    method="Flow Sampling",
    against=(*RIVALS, "Langevin"),
    sizes=SIZES,
    unit="W2 of samples",
    paper_result="W2 0.36 against 0.43 for the best rival (4 double-well particles)",
    notes=TUNED
    + "Radius 4, standard deviation 0.4; 2,000 samples of each against 2,000 exact ones, whose own distance is the "
    "floor. mode_error is half the summed error of the eight masses. MALA is shown and not judged: where a gradient "
    "is as cheap as here, a long chain is the better tool.",
)

ENERGIES = Claim(
    name="energies",
    statement="On the ring, with 30,720 gradients each, the energies of Flow Sampling's samples are nearer to "
    "exact ones (W2) than those of Adjoint Sampling with three kinds of noise.",
    metric="energy_w2",
    direction="lower",
    arms=CLAIM.arms,
    method="Flow Sampling",
    against=tuple(RIVALS),
    sizes=SIZES,
    unit="W2 of energies",
    paper_result="energy-W2 0.97 against 1.99 for the best rival (13 Lennard-Jones particles)",
    notes=TUNED
    + "Energies do not tell where samples are: a sampler that fills a few modes well and drops the others does well "
    "by this measure. It is the benchmarks' usual one, and what Flow Sampling loses here by its broader modes shows.",
)

MODES = Claim(
    name="modes",
    statement="On the ring each of the eight modes holds more than 4 % of the samples of Flow Sampling.",
    metric="least_mode",
    direction="higher",
    arms={"Flow Sampling": FLOW, **RIVALS, "MALA": CHAINS["MALA"], "exact samples": arms.exact},
    method="Flow Sampling",
    against=0.04,
    sizes=SIZES,
    unit="mass of the mode that holds least; 0.125 is right",
    paper_result="none",
    notes="Nothing in the method weighs modes against each other once they are found, so masses stay some way "
    "from 1/8.",
)

FEW_STEPS = Claim(
    name="few_steps",
    statement="On the ring, trained and sampled with 8 network evaluations a path, samples of Flow Sampling are "
    "nearer to exact ones (W2) than those of Adjoint Sampling (geometric noise) with 8 and with 64.",
    metric="w2",
    direction="lower",
    arms={
        **{f"Flow Sampling, {steps}": partial(FLOW, steps=steps) for steps in (8, 16, 64)},
        **{
            f"Adjoint Sampling, {steps}": partial(RIVALS["Adjoint Sampling, geometric"], steps=steps)
            for steps in (8, 16, 64)
        },
    },
    method="Flow Sampling, 8",
    against=("Adjoint Sampling, 8", "Adjoint Sampling, 64"),
    sizes=SIZES,
    unit="W2 of samples",
    paper_result="recall coverage 90.13 % at 64 evaluations, 29.13 % for Adjoint Sampling (SPICE)",
    notes=TUNED,
)

WELLS = Claim(
    name="wells",
    statement="On five double wells with deep barriers (5 dimensions, 32 wells), with 30,720 gradients each, "
    "samples of Flow Sampling are nearer to exact ones (W2) than those of Adjoint Sampling with three kinds of "
    "noise.",
    metric="w2",
    direction="lower",
    arms={
        "Flow Sampling": partial(FLOW, target="multi_well"),
        **{name: partial(arm, target="multi_well") for name, arm in RIVALS.items()},
        "MALA": partial(CHAINS["MALA"], target="multi_well"),
        "exact samples": partial(arms.exact, target="multi_well"),
    },
    method="Flow Sampling",
    against=tuple(RIVALS),
    sizes=SIZES,
    unit="W2 of samples",
    paper_result="none on this target",
    notes="Energies (x^2 - 4)^2. 'wells' counts the wells that hold a sample, 'side_error' how far the shares of "
    "either side are off. The rivals' noise was chosen on the ring, and so was Flow Sampling's strength.",
)

PATHS = Claim(
    name="paths",
    statement="On the ring, with 30,720 gradients each, samples of Flow Sampling are nearer to exact ones (W2) than "
    "those of the Path Integral Sampler with two losses, the Denoising Diffusion Sampler and iterated denoising "
    "(iDEM).",
    metric="w2",
    direction="lower",
    arms={
        "Flow Sampling": FLOW,
        "PIS": partial(arms.paths, reference="brownian", scale=2.0, batch=64),
        "PIS, log-variance": partial(arms.paths, reference="brownian", scale=2.0, batch=128, loss="log-variance"),
        "DDS": partial(arms.paths, reference="ornstein-uhlenbeck", scale=4.0, batch=256),
        "iDEM": partial(arms.denoised, perturbed=8, largest=2.0),
        "exact samples": arms.exact,
    },
    method="Flow Sampling",
    against=("PIS", "PIS, log-variance", "DDS", "iDEM"),
    sizes={
        "smallest": Size(2, {"rounds": 4, "updates": 10, "new_samples": 256}),
        **{name: size for name, size in SIZES.items() if name != "smallest"},
    },
    unit="W2 of samples",
    paper_result="none against these rivals on this target",
    notes="The rivals' settings were chosen on two other seeds: scale 1, 2 or 4 and batches of 64, 128 or 256 paths "
    "for PIS and DDS, 2, 8 or 32 perturbed points and a largest noise of 2, 4 or 8 for iDEM; Flow Sampling's strength "
    "is that of the headline. All see as many gradients, or values where the loss needs no gradient (log-variance), "
    "and none sees the score in its network. iDEM keeps its targets and uses them again, which the original does not.",
)

SPHERE = Claim(
    name="sphere",
    statement="For four von Mises-Fisher laws on a sphere the samples are nearer to exact ones (geodesic W2) with "
    "the term for the stretch of volume than without it.",
    metric="w2",
    direction="lower",
    arms={
        "Flow Sampling": partial(FLOW, target="sphere"),
        "without the stretch of volume": partial(arms.learned, method="no_curvature", target="sphere"),
        "without gradient": partial(arms.learned, method="no_gradient", target="sphere"),
        "exact samples": partial(arms.exact, target="sphere"),
    },
    method="Flow Sampling",
    against="without the stretch of volume",
    sizes=SIZES,
    unit="W2 of geodesic distances, radians",
    paper_result="shown as a picture",
    notes="Concentration 20. The distance of two exact samples is the floor.",
)

CONTROL = Claim(
    name="control",
    statement="On the ring, samples by the target whose gradient carries a factor t, and by the target without "
    "gradient, are farther from exact ones (W2 of energies) than those by the right target.",
    metric="energy_w2",
    direction="lower",
    arms={
        "Flow Sampling": FLOW,
        "gradient with a factor t": partial(arms.learned, method="factor_t"),
        "no gradient": partial(arms.learned, method="no_gradient"),
    },
    method="Flow Sampling",
    against=("gradient with a factor t", "no gradient"),
    sizes=SIZES,
    unit="W2 of energies",
    paper_result="none: a control of ours",
    notes="A negative control. The factor t is met in a summary of the paper; it belongs to other noise, and its "
    "loss falls as smoothly. Without a gradient the buffer's law never moves from the noise.",
)

CLAIMS = (CLAIM, ENERGIES, MODES, FEW_STEPS, PATHS, WELLS, SPHERE, CONTROL)
