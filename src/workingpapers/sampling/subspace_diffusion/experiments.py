"""The arms of the claims. All arms of one seed see the same law and the same samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.transport import wasserstein
from workingpapers.sampling.subspace_diffusion import baselines
from workingpapers.sampling.subspace_diffusion.clustering import SubspaceClustering
from workingpapers.sampling.subspace_diffusion.planning import memorisation
from workingpapers.sampling.subspace_diffusion.score import UoSScore
from workingpapers.sampling.subspace_diffusion.truth import UnionLaw, random_union

Floats = NDArray[np.float64]
Kind = Literal["gaussian", "box"]
Estimator = Callable[[Floats, UnionLaw, int], Any]
KINDS: tuple[Kind, ...] = ("gaussian", "box")


def fit_subspaces(data: Floats, law: UnionLaw, seed: int) -> UoSScore:
    """Fit the method on bases found from the data by thresholded clustering, M and k given."""
    finder = SubspaceClustering(len(law.bases), law.bases[0].shape[1], "tsc", random_state=seed)
    return UoSScore(finder, noise="auto").fit(data)


def fit_subspaces_soft(data: Floats, law: UnionLaw, seed: int) -> UoSScore:
    """Fit the method with the soft threshold."""
    finder = SubspaceClustering(len(law.bases), law.bases[0].shape[1], "tsc", random_state=seed)
    return UoSScore(finder, noise="auto", threshold="soft").fit(data)


def fit_plug_in(data: Floats, law: UnionLaw, seed: int) -> UoSScore:
    """Fit the plug-in score."""
    return baselines.plug_in_score(data)


def fit_ambient(data: Floats, law: UnionLaw, seed: int) -> UoSScore:
    """Fit the regularised kernel score in all dimensions."""
    return baselines.ambient_score(data)


def fit_single(data: Floats, law: UnionLaw, seed: int) -> UoSScore:
    """Fit one subspace whose dimension is the sum of all."""
    return baselines.single_subspace_score(data, min(law.dim, sum(basis.shape[1] for basis in law.bases)))


def fit_mixture(data: Floats, law: UnionLaw, seed: int) -> baselines.GaussianMixtureScore:
    """Fit a Gaussian mixture with the true number of components."""
    return baselines.GaussianMixtureScore(law.weights.size, seed).fit(data)


def score_error(estimate: Any, law: UnionLaw, t: float, points: int, seed: int) -> tuple[float, float]:
    """Return the mean squared error of a score at points of p_t, and the mean squared length of the true score."""
    x = law.noised(points, t, np.random.default_rng([seed, 77]))
    truth = law.score(x, t)
    error = ((estimate.score_ve(x, t) - truth) ** 2).sum(axis=1).mean()
    return float(error), float((truth**2).sum(axis=1).mean())


def accuracy(
    seed: int, progress: Progress, *, estimator: Estimator, dim: int, subspaces: int, low: int, sizes: Sequence[int],
    times: Sequence[float], late_times: Sequence[float], points: int,
) -> dict[str, float]:  # fmt: skip
    """Return errors of the score relative to its own size: geometric means at small and large noise, and each cell."""
    found: dict[str, float] = {}
    cells = [(kind, size) for kind in KINDS for size in sizes]
    for number, (kind, size) in enumerate(cells):
        progress(number / len(cells), f"{kind}, {size} samples")
        law = random_union(np.random.default_rng([seed, 1]), dim, subspaces, low, kind)
        estimate = estimator(law.sample(size, np.random.default_rng([seed, 2]))[0], law, seed)
        for t in (*times, *late_times):
            error, length = score_error(estimate, law, t, points, seed)
            found[f"{kind}_{size}_{t:g}"] = error / length
    return {"error": _mean_of(found, times), "late_error": _mean_of(found, late_times), **found}


def _mean_of(found: dict[str, float], times: Sequence[float]) -> float:
    ends = tuple(f"_{t:g}" for t in times)
    return float(np.exp(np.mean([np.log(value) for name, value in found.items() if name.endswith(ends)])))


def rate(
    seed: int, progress: Progress, *, estimator: Estimator, dim: int, subspaces: int, low: int, sizes: Sequence[int],
    t: float, points: int,
) -> dict[str, float]:  # fmt: skip
    """Return the slope of the log error of the score on log N, and the errors."""
    law = random_union(np.random.default_rng([seed, 1]), dim, subspaces, low)
    errors = []
    for number, size in enumerate(sizes):
        progress(number / len(sizes), f"{size} samples")
        estimate = estimator(law.sample(size, np.random.default_rng([seed, 2]))[0], law, seed)
        errors.append(score_error(estimate, law, t, points, seed)[0])
    slope = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    return {"slope": slope, **{f"error_{size}": error for size, error in zip(sizes, errors, strict=True)}}


def ambient_growth(
    seed: int, progress: Progress, *, estimator: Estimator, dims: Sequence[int], subspaces: int, low: int, size: int,
    t: float, points: int,
) -> dict[str, float]:  # fmt: skip
    """Return the error in the largest ambient dimension over that in the smallest; the laws on the subspaces agree."""
    errors = []
    for number, dim in enumerate(dims):
        progress(number / len(dims), f"{dim} dimensions")
        law = random_union(np.random.default_rng([seed, 1]), dim, subspaces, low)
        model = random_union(np.random.default_rng([seed, 3]), min(dims), subspaces, low)
        law = UnionLaw(law.bases, model.weights, model.means, model.spreads)
        estimate = estimator(law.sample(size, np.random.default_rng([seed, 2]))[0], law, seed)
        errors.append(score_error(estimate, law, t, points, seed)[0])
    return {"growth": errors[-1] / errors[0], **{f"error_{d}": e for d, e in zip(dims, errors, strict=True)}}


def sampling(
    seed: int, progress: Progress, *, sampler: str, dim: int, subspaces: int, low: int, sizes: Sequence[int],
    drawn: int, steps: int,
) -> dict[str, float]:  # fmt: skip
    """Return the slope of the log W1 error of samples on log n, the errors, and how new the samples are."""
    law = random_union(np.random.default_rng([seed, 1]), dim, subspaces, low)
    fresh = law.sample(drawn, np.random.default_rng([seed, 4]))[0]
    found: dict[str, float] = {}
    errors = []
    for number, size in enumerate(sizes):
        progress(number / len(sizes), f"{size} samples")
        data = law.sample(size, np.random.default_rng([seed, 2]))[0]
        samples = _drawn(sampler, data, law, drawn, steps, seed)
        errors.append(wasserstein(samples, fresh, order=1))
        newness = memorisation(samples, data, fresh)
        found |= {f"w1_{size}": errors[-1], f"newness_{size}": newness.ratio, f"copies_{size}": newness.copies}
    slope = float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
    return {"slope": slope, **found}


def _drawn(sampler: str, data: Floats, law: UnionLaw, drawn: int, steps: int, seed: int) -> Floats:
    rng = np.random.default_rng([seed, 5])
    if sampler == "fresh":
        return law.sample(drawn, rng)[0]
    if sampler == "bootstrap":
        return data[rng.choice(len(data), drawn)]
    model = fit_subspaces(data, law, seed)
    if sampler.startswith("gaussian"):
        model.set_params(threshold="gaussian")
    if sampler.startswith("plug-in"):
        # The same numbers as the kernel sum in all dimensions, at the cost of the low ones.
        model.set_params(threshold="none", clip=False)
    last = sampler.endswith("denoised")
    return model.sample(drawn, n_steps=steps, final_denoise=last, random_state=seed, progress=silent)


def recovery(
    seed: int, progress: Progress, *, method: str, dim: int, subspaces: int, low: int, each: int, noise: float
) -> dict[str, float]:
    """Return the share of samples with the right subspace, up to the names of the subspaces, and the largest angle."""
    rng = np.random.default_rng([seed, 6])
    bases = [np.linalg.qr(rng.standard_normal((dim, low)))[0] for _ in range(subspaces)]
    data = np.concatenate([rng.standard_normal((each, low)) @ basis.T for basis in bases])
    data += noise * rng.standard_normal(data.shape)
    labels = np.repeat(np.arange(subspaces), each)
    if method == "k-means":
        found, angle = KMeans(subspaces, n_init=20, random_state=seed).fit_predict(data), float("nan")
    elif method == "k-means on directions":
        # Samples x and -x lie on one subspace, so lengths and signs are taken out before clustering.
        unit = data / np.linalg.norm(data, axis=1, keepdims=True)
        outer = np.einsum("ni,nj->nij", unit, unit).reshape(len(data), -1)
        found, angle = KMeans(subspaces, n_init=20, random_state=seed).fit_predict(outer), float("nan")
    else:
        given = None if method.endswith("blind") else subspaces
        finder = SubspaceClustering(given, None if given is None else low, method[:3].lower(), random_state=seed)  # type: ignore[arg-type]
        found = finder.fit_predict(data)
        angle = max(min(principal_angle(basis, other) for other in finder.bases_) for basis in bases)
    share = clustering_accuracy(labels, np.asarray(found))
    result = {"accuracy": share, "subspaces": float(len(np.unique(found)))}
    return result | ({"largest_angle": angle} if angle == angle else {})


def clustering_accuracy(labels: NDArray[np.int64], found: NDArray[Any]) -> float:
    """Return the share of samples that agree under the best matching of names."""
    table = np.zeros((labels.max() + 1, found.max() + 1))
    np.add.at(table, (labels, found), 1)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(labels))


def principal_angle(first: Floats, second: Floats) -> float:
    """Return the largest principal angle of two subspaces in radians; pi/2 where the dimensions differ."""
    from scipy.linalg import subspace_angles

    return float(subspace_angles(first, second).max()) if first.shape == second.shape else float(np.pi / 2)


def identity(
    seed: int, progress: Progress, *, regularised: bool, dim: int, subspaces: int, low: int, sizes: Sequence[int],
    times: Sequence[float], points: int,
) -> dict[str, float]:  # fmt: skip
    """Return the largest difference to brute-force d-dimensional kernels, relative to the longest score."""
    worst = 0.0
    for size in sizes:
        law = random_union(np.random.default_rng([seed, 1]), dim, subspaces, low)
        data = law.sample(size, np.random.default_rng([seed, 2]))[0]
        options: dict[str, Any] = {} if regularised else {"threshold": "none", "clip": False}
        model = UoSScore(bases=law.bases, **options).fit(data)
        for t in times:
            x = law.noised(points, t, np.random.default_rng([seed, 77]))
            logs = -((x[:, None] - data[None]) ** 2).sum(axis=2) / (2 * t)
            brute = (np.exp(logs - logsumexp(logs, axis=1, keepdims=True)) @ data - x) / t
            worst = max(worst, float(np.abs(model.score_ve(x, t) - brute).max() / np.abs(brute).max()))
    return {"difference": worst}
