"""The experiments behind the claims: one arm is one function of a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

from workingpapers.governance.ai_lifecycle.assessment import assess
from workingpapers.governance.ai_lifecycle.attribution import break_even_volume, cost_per_unit, device_burden
from workingpapers.governance.ai_lifecycle.cases import CASES, case_study
from workingpapers.governance.ai_lifecycle.comparison import compare
from workingpapers.governance.ai_lifecycle.impacts import evaluate
from workingpapers.governance.ai_lifecycle.inventory import parse
from workingpapers.governance.ai_lifecycle.quantities import draw
from workingpapers.governance.ai_lifecycle.sensitivity import elasticities, total_of
from workingpapers.governance.ai_lifecycle.study import Study
from workingpapers.replication.claim import Progress

HOURS = 8760
DEVICE_POWER = 0.7  # kW, rated
TUNING_PAIRS = 20_000
TUNING_SEED = 987_654_321
Pair = dict[str, np.ndarray]


def design_pairs(rng: np.random.Generator, pairs: int) -> Pair:
    """Draw pairs of designs A and B, shape (pairs, 2), of which B usually trains dearer and serves cheaper."""

    def log_normal(median: float, spread: float) -> np.ndarray:
        return median * np.exp(spread * rng.standard_normal(pairs))

    def between(low: float, high: float, columns: int = 1) -> np.ndarray:
        return rng.uniform(low, high, (pairs, columns))

    train, infer = log_normal(3e5, 0.5), log_normal(1e-3, 0.5)
    training = np.stack([train, train * log_normal(4, 0.4)], 1)
    return {
        "training": training,
        "experimentation": training * log_normal(0.5, 0.5)[:, None],
        "inference": np.stack([infer, infer * log_normal(0.5, 0.3)], 1),
        "training_load": between(0.5, 0.8, 2),
        "inference_load": between(0.2, 0.6, 2),
        "volume": 10 ** between(6, 12),
        "pue": between(1.1, 1.6),
        "intensity": between(0.03, 0.7),
        "embodied": device_burden(between(164, 318), 5700, 8),
        "lifespan": HOURS * between(3, 5),
    }


def misjudged(pair: Pair, rng: np.random.Generator, spread: float, volume_spread: float) -> Pair:
    """Return the pair as its planners see it: every number off by a lognormal error, the volume by a larger one."""
    return {
        name: value * np.exp((volume_spread if name == "volume" else spread) * rng.standard_normal(value.shape))
        for name, value in pair.items()
    }


def life_cycle(pair: Pair) -> np.ndarray:
    """Return C_FU of both designs in kgCO2e, shape (pairs, 2)."""
    per_kwh = pair["pue"] * pair["intensity"]
    hourly = pair["embodied"] / pair["lifespan"]
    made = per_kwh + hourly / (DEVICE_POWER * pair["training_load"])
    hours = pair["inference"] / (DEVICE_POWER * pair["inference_load"])
    result: np.ndarray = cost_per_unit(
        pair["inference"] * per_kwh, hours, pair["embodied"], pair["lifespan"],
        pair["experimentation"] * made, pair["training"] * made, pair["volume"],
    )  # fmt: skip
    return result


def operation(pair: Pair) -> np.ndarray:
    """Return the electricity of all stages, without hardware, shape (pairs, 2)."""
    upstream = (pair["training"] + pair["experimentation"]) / pair["volume"]
    return np.asarray((pair["inference"] + upstream) * pair["pue"] * pair["intensity"])


def switched(pair: Pair, threshold: float) -> np.ndarray:
    """Return training energy below the volume `threshold` and inference energy above, shape (pairs, 2)."""
    return np.where(pair["volume"] < threshold, pair["training"], pair["inference"])


_SCORES: dict[str, Callable[[Pair], np.ndarray]] = {
    "life cycle": life_cycle,
    "operation only": operation,
    "training only": lambda pair: pair["training"],
    "inference only": lambda pair: pair["inference"],
}


def wrong(score: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of pairs that `score` ranks unlike `truth`."""
    return float(np.mean((score[:, 0] < score[:, 1]) != (truth[:, 0] < truth[:, 1])))


def on_pairs(
    seed: int, progress: Progress, *, by: str, pairs: int, spread: float, volume_spread: float
) -> dict[str, float]:
    """Rank pairs of designs from misjudged numbers and return how often that is wrong, and the regret in per cent."""
    rng = np.random.default_rng(seed)
    pair = design_pairs(rng, pairs)
    seen, truth = misjudged(pair, rng, spread, volume_spread), life_cycle(pair)
    progress(0.5)
    if by == "switch by volume":
        tuning = np.random.default_rng(TUNING_SEED)
        past = design_pairs(tuning, TUNING_PAIRS)
        known, right = misjudged(past, tuning, spread, volume_spread), life_cycle(past)
        grid = np.geomspace(1e6, 1e12, 61)
        threshold = grid[np.argmin([wrong(switched(known, level), right) for level in grid])]
        score = switched(seen, threshold)
    else:
        score = _SCORES[by](seen)
    chosen = truth[np.arange(pairs), np.argmin(score, axis=1)]
    return {"wrong": wrong(score, truth), "regret_percent": float(100 * np.mean(chosen / truth.min(axis=1) - 1))}


def small_study(processes: dict[str, Any], grid_gsd: float, gwp: float = 0.4) -> Study:
    """Return a study of some processes on one grid and one facility."""
    return parse(
        {
            "year": 2026,
            "functional_unit": {"name": "answer", "unit": "answer", "quality": "fixed", "volume": 1e6},
            "grid": {"site": {"gwp": {"value": gwp, "unit": "kgCO2e/kWh", "gsd": grid_gsd}}},
            "facility": {"hall": {"grid": "site", "pue": 1.2}},
            "process": {
                name: {"facility": "hall", **fields} for name, fields in processes.items()
            },
        }
    )  # fmt: skip


def on_shared_grid(seed: int, progress: Progress, *, how: str, samples: int, designs: int) -> dict[str, float]:
    """Return the error of P(A < B) for designs on one grid, against its closed form."""
    rng = np.random.default_rng(seed)
    errors, settled = [], []
    for number in range(designs):
        log_ratio, grid = rng.normal(0, 0.3), float(np.exp(rng.uniform(0.2, 0.6)))
        own = rng.uniform(0.05, 0.2, 2)
        exact = float(norm.cdf(log_ratio / np.hypot(*own)))
        a, b = (
            assess(
                small_study(
                    {
                        name: {
                            "stage": "inference",
                            "electricity": {"value": kwh, "unit": "kWh", "gsd": float(np.exp(s))},
                        }
                    },
                    grid,
                ),
                samples=samples,
                seed=seed if how != "independent draws" or name == "serve_a" else seed + 1_000_000,
            )
            for name, kwh, s in (("serve_a", 1e-3, own[0]), ("serve_b", 1e-3 * float(np.exp(log_ratio)), own[1]))
        )
        if how == "paired draws":
            found = next(item for item in compare(a, b) if item.category == "gwp").probability
        elif how == "independent draws":
            found = float(np.mean(a.samples[:, 0] < b.samples[:, 0]))
        else:
            (low_a, _, high_a), (low_b, _, high_b) = a.interval("gwp"), b.interval("gwp")
            found = 1.0 if high_a < low_b else 0.0 if high_b < low_a else 0.5
        errors.append(abs(found - exact))
        settled.append(float(found < 0.05 or found > 0.95))
        progress((number + 1) / designs)
    return {"error": float(np.mean(errors)), "settled": float(np.mean(settled))}


def random_study(rng: np.random.Generator, widen: float = 1.0) -> Study:
    """Return a study of five stages with lognormal inputs; `widen` scales the logarithmic spreads that it states."""

    def stated(value: float, low: float = 0.05, high: float = 0.5) -> dict[str, float]:
        return {"value": value, "gsd": float(np.exp(widen * rng.uniform(low, high)))}

    upstream = ("data", "experimentation", "pretraining", "evaluation")
    processes: dict[str, Any] = {
        stage: {"stage": stage, "electricity": {**stated(float(rng.lognormal(6, 1))), "unit": "kWh"}}
        for stage in upstream
    }
    processes["serving"] = {"stage": "inference", "electricity": {**stated(float(rng.lognormal(-7, 1))), "unit": "kWh"}}
    return small_study(processes, float(np.exp(widen * rng.uniform(0.2, 0.5))))


def on_known_truth(seed: int, progress: Progress, *, how: str, samples: int, truths: int) -> dict[str, float]:
    """Return how often the 95 % interval contains totals drawn from the inputs' own distributions."""
    study = random_study(np.random.default_rng(seed))
    true = evaluate(study, draw(dict(study.quantities), truths, seed + 2_000_000_000)).totals[:, 0]
    progress(0.3)
    if how == "first order":
        slopes = elasticities(study.quantities, total_of(study, "gwp"))
        spread = np.sqrt(sum((e * study.quantities[name].spread) ** 2 for name, e in slopes.items()))
        center = evaluate(study, {name: np.array([v]) for name, v in study.medians.items()}).totals[0, 0]
        low, high = center * np.exp(np.array([-1.96, 1.96]) * spread)
    elif how == "grid drawn for each stage":
        drawn = draw(dict(study.quantities), samples, seed)
        table = evaluate(study, drawn).table[:, :, :, 0].sum(axis=2) / drawn["grid.site.gwp"][:, None]
        rng = np.random.default_rng([seed, 1])
        grid = study.quantities["grid.site.gwp"].ppf(rng.random(table.shape))
        low, high = np.quantile((table * grid).sum(axis=1), [0.025, 0.975])
    else:
        told = random_study(np.random.default_rng(seed), 0.5 if how == "half the spread" else 1.0)
        low, _, high = assess(told, samples=samples, seed=seed).interval("gwp")
    inside = (true >= low) & (true <= high)
    return {"covered": float(inside.mean()), "truths": float(truths), "width": float(high / low)}


def on_digits(seed: int, progress: Progress, *, how: str, trials: int, epochs: int, width: int) -> dict[str, float]:
    """Search, then train once, on scikit-learn's digits; return the search's share of the floating-point operations."""
    import warnings

    from sklearn.datasets import load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    X_rest, X_test, y_rest, y_test = train_test_split(X / 16, y, test_size=400, random_state=seed)
    X_train, X_check, y_train, y_check = train_test_split(X_rest, y_rest, test_size=300, random_state=seed)
    rng = np.random.default_rng(seed)
    configurations = [
        {"learning_rate_init": float(10 ** rng.uniform(-4, -1)), "alpha": float(10 ** rng.uniform(-6, 0)),
         "batch_size": int(rng.choice([32, 64, 128]))}
        for _ in range(trials)
    ]  # fmt: skip
    spent = 0.0

    def fit(configuration: dict[str, Any], hidden: int, limit: int, data: tuple[Any, Any]) -> Any:
        nonlocal spent
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MLPClassifier((hidden,), max_iter=limit, early_stopping=True, random_state=seed, **configuration)
            model.fit(*data)
        weights = sum(layer.size for layer in model.coefs_)
        spent += 6.0 * weights * 0.9 * len(data[0]) * model.n_iter_  # a tenth of the rows decides when to stop
        return model

    hidden = max(4, width // 8) if how == "small proxies" else width
    left, limit = list(range(trials)), max(1, epochs // 9) if how == "successive halving" else epochs
    while True:
        scores = {}
        for done, index in enumerate(left):
            scores[index] = fit(configurations[index], hidden, limit, (X_train, y_train)).score(X_check, y_check)
            progress(0.9 * done / len(left), "searching")
        if limit >= epochs:
            break
        left, limit = sorted(left, key=lambda i: -scores[i])[: max(1, len(left) // 3)], min(epochs, limit * 3)
    search = spent
    final = fit(configurations[max(scores, key=lambda i: scores[i])], width, epochs, (X_rest, y_rest))
    return {
        "share": search / spent,
        "accuracy": float(final.score(X_test, y_test)),
        "understated_times": spent / (spent - search),
    }


def on_case(seed: int, progress: Progress, *, how: str) -> dict[str, float]:
    """Recompute published case number `seed` and return the deviation from its total in per cent."""
    case = CASES[seed % len(CASES)]
    result = assess(case_study(case, operation_only=how == "last run only"), samples=100)
    progress(1.0)
    found = result.totals["gwp"] / 1000
    return {"deviation_percent": 100 * abs(found / case.published - 1), "tonnes": found}


def on_break_even(seed: int, progress: Progress, *, batch: int, upstream: float) -> dict[str, float]:
    """Return log10 of the requests at which serving a 7B model equals `upstream` kgCO2e, inputs drawn from the seed."""
    rng = np.random.default_rng(seed)
    tokens = 220 * np.exp(0.25 * rng.standard_normal())
    pue, intensity = rng.uniform(1.1, 1.4), rng.uniform(0.2, 0.5)
    card, lifespan = rng.uniform(164, 318), HOURS * rng.uniform(3, 5)
    # The published regression of EcoLogits for 7 billion active parameters on one of eight GPUs of a 1.2 kW server.
    gpu_kwh = tokens * (1.1665e-6 * np.exp(-0.011206 * batch) * 7 + 4.0529e-5) / 1000
    seconds = tokens * (6.785e-4 * 7 + 3.119e-4 * batch + 1.947e-2) / batch
    energy = gpu_kwh + seconds / 3600 * 1.2 / 8
    marginal = energy * pue * intensity + seconds / 3600 / lifespan * device_burden(card, 5700, 8)
    progress(1.0)
    return {"log10_requests": float(np.log10(break_even_volume(upstream, marginal))), "joules": float(energy * 3.6e6)}
