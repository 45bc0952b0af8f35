"""The claims: two wells, log Z, rank 1 as control, a chain by rank and against a network, growth with dimension."""

from __future__ import annotations

from functools import partial

from workingpapers.replication.claim import Claim, Size
from workingpapers.sampling.tensor_train_sampling import experiments as arms

TINY = {"steps": 30, "batch": 300, "iterations": 1, "samples": 500, "updates": 3}
WELLS = {
    "smallest": Size(3, {**TINY, "size": 7}),
    "small": Size(5, {"steps": 150, "batch": 2000, "iterations": 2, "size": 9, "samples": 10_000, "updates": 60}),
    "full": Size(10, {"steps": 300, "batch": 8000, "iterations": 2, "size": 9, "samples": 50_000, "updates": 500}),
}
FIVE = {
    "smallest": Size(3, {**TINY, "size": 7}),
    "small": Size(4, {"steps": 120, "batch": 3000, "iterations": 1, "size": 9, "samples": 10_000}),
    "full": Size(10, {"steps": 300, "batch": 8000, "iterations": 2, "size": 9, "samples": 50_000}),
}
CHAIN = {
    "smallest": Size(3, {**TINY, "size": 4}),
    "small": Size(3, {"steps": 80, "batch": 2000, "iterations": 1, "size": 5, "samples": 10_000, "updates": 250}),
    "full": Size(10, {"steps": 200, "batch": 8000, "iterations": 2, "size": 9, "samples": 50_000, "updates": 2500}),
}
GROWTH = {
    "smallest": Size(3, {**TINY, "size": 5}),
    "small": Size(3, {"steps": 100, "batch": 2000, "iterations": 2, "size": 9, "samples": 10_000}),
    "full": Size(10, {"steps": 300, "batch": 16_000, "iterations": 2, "size": 9, "samples": 50_000}),
}
FIGURES = (
    "ess is the effective share of the weighted paths, none of them left out; seconds are CPU seconds of the fit on "
    "one thread; restarts counts regressions that began again from the additive model. "
)

CLAIM = Claim(
    name="headline",
    statement="On double wells in both of two coordinates the fitted policy has at least five times the effective "
    "sample size of the annealed Langevin policy that it starts from, with the same time grid and weights.",
    metric="ess",
    direction="higher",
    arms={
        "tensor train": arms.tensor_train,
        "annealed Langevin": arms.langevin,
        "neural control": arms.neural,
        "without the Ito term": partial(arms.tensor_train, ito=False),
    },
    method="tensor train",
    against="annealed Langevin",
    effect="ratio",
    margin=4.0,
    sizes=WELLS,
    unit="effective share of samples",
    paper_result="better effective sample sizes than neural samplers on wells in 10 and 50 dimensions (plots)",
    notes=FIGURES + "The neural control learns a correction of the same first policy, in at least as many CPU seconds, "
    "and is shown, not judged. Without the Ito term the regression leaves S . grad V out.",
)

LOG_Z = Claim(
    name="log_partition",
    statement="On double wells in both of two coordinates the estimate of log Z is within 0.05 of quadrature.",
    metric="log_z_error",
    direction="lower",
    arms={
        "tensor train": arms.tensor_train,
        "annealed Langevin": arms.langevin,
        "neural control": arms.neural,
    },
    method="tensor train",
    against=0.05,
    sizes=WELLS,
    unit="nats",
    paper_result="shown as plots",
    notes=FIGURES + "log Z is 0.5860. elbo_gap is log Z less the mean log-weight.",
)

RANKS = Claim(
    name="rank_one",
    statement="On three wells and two Gaussian coordinates trains of rank 2 give more than twice the effective sample "
    "size of trains of rank 1, which cannot hold a sum.",
    metric="ess",
    direction="higher",
    arms={
        "rank 2": partial(arms.tensor_train, dim=5, rank=2),
        "rank 1": partial(arms.tensor_train, dim=5, rank=1),
        "annealed Langevin": partial(arms.langevin, dim=5),
    },
    method="rank 2",
    against="rank 1",
    effect="ratio",
    margin=1.0,
    sizes=FIVE,
    unit="effective share of samples",
    paper_result="none: a control of ours",
    notes=FIGURES + "A negative control. The potential stays a sum of functions of one coordinate at all times, and a "
    "sum has rank 2. A fit that ends in an error counts as one effective sample.",
)

CHAIN_RANKS = Claim(
    name="chain",
    statement="On a Ginzburg-Landau chain of eight coupled coordinates the effective sample size is higher at rank 4 "
    "than at rank 2.",
    metric="ess",
    direction="higher",
    arms={f"rank {rank}": partial(arms.tensor_train, target="chain", dim=8, rank=rank) for rank in (2, 3, 4)},
    method="rank 4",
    against="rank 2",
    effect="ratio",
    sizes=CHAIN,
    unit="effective share of samples",
    paper_result="Ginzburg-Landau chains: shown as plots",
    notes=FIGURES + "Not separable: delta, beta and kappa are 1. log Z is exact by a transfer matrix. residual is the "
    "mean over steps of the squared residual over the variance.",
)

CHAIN_NEURAL = Claim(
    name="chain_neural",
    statement="On a Ginzburg-Landau chain of eight coupled coordinates trains of rank 3 give a higher effective sample "
    "size than a neural control that was trained for at least as long, and than the annealed Langevin policy.",
    metric="ess",
    direction="higher",
    arms={
        "rank 3": partial(arms.tensor_train, target="chain", dim=8, rank=3),
        "neural control": partial(arms.neural, target="chain", dim=8),
        "neural control, slower rate": partial(arms.neural, target="chain", dim=8, rate=5e-4),
        "annealed Langevin": partial(arms.langevin, target="chain", dim=8),
    },
    method="rank 3",
    against=("neural control", "neural control, slower rate", "annealed Langevin"),
    effect="ratio",
    sizes=CHAIN,
    unit="effective share of samples",
    paper_result="better than a time-reversed diffusion sampler with networks (plots)",
    notes=FIGURES + "The network (two layers of 64) learns a correction of the same first policy by the variance of "
    "log-weights. Its number of updates is fixed, so that runs repeat; compare the seconds.",
)

DIMENSION = Claim(
    name="dimension",
    statement="With 2,000 paths the method is still of use on five wells and five Gaussian coordinates: its effective "
    "share is above 0.1.",
    metric="ess",
    direction="higher",
    arms={f"d = {dim}": partial(arms.tensor_train, dim=dim) for dim in (10, 2, 5, 20)},
    method="d = 10",
    against=0.1,
    sizes=GROWTH,
    unit="effective share of samples",
    paper_result="wells in 10 and 50 dimensions with 32,768 paths and 512 steps",
    notes=FIGURES + "Wells in half of the coordinates, rounded up, and in both of two. Cost grows linearly with the "
    "dimension; the effective share falls with it at a fixed number of paths.",
)

CLAIMS = (CLAIM, LOG_Z, RANKS, CHAIN_RANKS, CHAIN_NEURAL, DIMENSION)
