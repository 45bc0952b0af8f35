"""The arms of the claims: what a budget buys on planted tastes, and what an attacker can tell from a release."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.logistic import fit_logistic
from workingpapers.foundations.privacy.auditing import audit
from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.foundations.progress import Progress
from workingpapers.preferences.dpprefsyn.budget import DEFAULT, Settings, count_records, plan_budget
from workingpapers.preferences.dpprefsyn.mixture import Rewards, fit_plan
from workingpapers.preferences.dpprefsyn.planted import ATTRIBUTES, SHARES, World, group_accuracies
from workingpapers.preferences.dpprefsyn.synthesis import choose_pairs

Floats = NDArray[np.float64]
TEST = 4000


def fit_private(
    rows: NDArray[np.floating], epsilon: float, delta: float, settings: Settings, rng: np.random.Generator
) -> Rewards:
    """Return what a fit would release, with noise from a seed and without the statement, which takes seconds.

    Args:
        rows: Differences, shape (N, d).
        epsilon: Budget; infinity for no noise.
        delta: Budget.
        settings: The settings.
        rng: Source of the noise.
    """
    noise = SeededNoise(rng)
    released, first = count_records(len(rows), epsilon, noise)
    plan = plan_budget(released, rows.shape[1], epsilon - first.epsilon, delta, settings, secure=False)
    return fit_plan(rows, plan, noise)


def in_full(rewards: Rewards) -> Floats:
    """Return the rewards as directions in the embedding space, shape (K, d).

    Args:
        rewards: The released rewards.
    """
    return rewards.thetas if rewards.directions is None else rewards.thetas @ rewards.directions


def random_like(rewards: Rewards, rng: np.random.Generator) -> Rewards:
    """Return the same model with rewards of random direction and the same lengths.

    Args:
        rewards: The model.
        rng: Source of randomness.
    """
    drawn = rng.standard_normal(rewards.thetas.shape)
    lengths = np.linalg.norm(rewards.thetas, axis=1) / np.linalg.norm(drawn, axis=1)
    return replace(rewards, thetas=drawn * lengths[:, None])


def recovery(
    seed: int,
    progress: Progress,
    *,
    records: int,
    dimension: int,
    epsilon: float,
    delta: float,
    settings: Settings = DEFAULT,
    shuffled: bool = False,
    label_only: bool = False,
) -> dict[str, float]:
    """Learn rewards and let each planted group take the one that suits it best.

    Args:
        seed: Seed of data and noise.
        progress: Called along the way.
        records: N.
        dimension: d.
        epsilon: Budget.
        delta: Budget.
        settings: Of the fit.
        shuffled: Replace the learned rewards by random ones: what the choice among several is worth by itself.
        label_only: Protect labels alone, by randomised response, and learn without noise.
    """
    data, noise = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    world = World(dimension, data)
    train, test = world.preferences(records, data), world.preferences(TEST, data)
    progress(0.3, "learning rewards")
    rows = train.differences
    if label_only:
        flipped = noise.random(len(rows)) >= 1 / (1 + np.exp(-epsilon))
        rows = np.where(flipped[:, None], -rows, rows)
    rewards = fit_private(rows, np.inf if label_only else epsilon, delta, settings, noise)
    if shuffled:
        rewards = random_like(rewards, noise)
    best = group_accuracies(in_full(rewards), test).max(axis=1)
    progress(1.0, "judged")
    return {
        "accuracy": float(best @ np.array(SHARES)),
        "worst": float(best.min()),
        "rewards": float(len(rewards.weights)),
    }


def labelling(
    seed: int,
    progress: Progress,
    *,
    records: int,
    dimension: int,
    prompts: int,
    epsilon: float,
    delta: float,
    settings: Settings = DEFAULT,
    shuffled: bool = False,
    min_margin: float = 0.5,
) -> dict[str, float]:
    """Label public responses with the released rewards and compare with the taste that each reward is nearest to.

    Args:
        seed: Seed of data and noise.
        progress: Called along the way.
        records: N.
        dimension: d.
        prompts: Public prompts, with five responses each.
        epsilon: Budget.
        delta: Budget.
        settings: Of the fit.
        shuffled: Replace the learned rewards by random ones.
        min_margin: Least margin of a pair.
    """
    data, noise = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    world = World(dimension, data)
    train, test = world.preferences(records, data), world.preferences(TEST, data)
    public = world.responses(data.integers(ATTRIBUTES, size=prompts), 5, data).reshape(-1, dimension)
    progress(0.4, "learning rewards")
    rewards = fit_private(train.differences, epsilon, delta, settings, noise)
    if shuffled:
        rewards = random_like(rewards, noise)
    progress(0.7, "labelling")
    choices = choose_pairs(rewards, public, range(0, len(public) + 1, 5), np.random.default_rng([seed, 2]))
    kept = [choice for choice in choices if choice.margin >= min_margin]
    nearest = (in_full(rewards) @ world.tastes.T).argmax(axis=1)  # tastes have length 1
    pairs = np.array([[choice.best, choice.worst, nearest[choice.cluster]] for choice in kept]).reshape(-1, 3)
    differences = public[pairs[:, 0]] - public[pairs[:, 1]]
    liking = np.einsum("nd,nd->n", differences, world.tastes[pairs[:, 2]])
    inner = differences if rewards.directions is None else differences @ rewards.directions.T
    policy = fit_logistic(inner, np.ones(len(inner)), ridge=1.0).coefficients
    whole = policy if rewards.directions is None else policy @ rewards.directions
    return {
        "agreement": float((liking > 0).mean()) if len(kept) else 0.5,
        "kept": len(kept) / prompts,
        "one_policy": float((test.differences @ whole > 0).mean()),
    }


def attack(
    seed: int,
    progress: Progress,
    *,
    runs: int,
    records: int,
    dimension: int,
    epsilon: float,
    delta: float,
    noise_factor: float = 1.0,
) -> dict[str, float]:
    """Guess from the release, and from labels made with it, whether one odd record was among the private ones.

    All other records are alike and short, which leaves the odd one, of full length and across them, most to say.

    Args:
        seed: Seed of the noise.
        progress: Called along the way.
        runs: Fits with the record, and without it.
        records: N without the record.
        dimension: d.
        epsilon: Stated budget.
        delta: Stated budget.
        noise_factor: Share of the noise that the budget asks for; below 1 the statement is false.
    """
    settings = Settings(components=2, clusters=2, rounds=2, batch=records, epochs=10)
    plan = plan_budget(records, dimension, epsilon, delta, settings, secure=False)
    plan = plan.scaled(noise_factor, noise_factor, noise_factor)
    public = np.random.default_rng([seed, 0]).standard_normal((100, dimension))
    public /= np.linalg.norm(public, axis=1, keepdims=True)
    without = np.zeros((records, dimension))
    without[:, 1] = 0.01
    odd = np.eye(dimension)[:1]
    model: list[list[Floats]] = [[], []]
    output: list[list[Floats]] = [[], []]
    for present, rows in enumerate((without, np.vstack([without, odd]))):
        for run in range(runs):
            noise = SeededNoise(np.random.default_rng([seed, 1, present, run]))
            released = fit_plan(rows, plan, noise)
            model[present].append(_model_features(released))
            output[present].append(_label_features(released, public, np.random.default_rng([seed, 2, present, run])))
            if run % 50 == 0:
                progress((present * runs + run) / (2 * runs), "fits")
    found = {name: _audited(pair, delta) for name, pair in (("model", model), ("labels", output))}
    return {
        "measured": max(found.values()),
        "measured_from_model": found["model"],
        "measured_from_labels": found["labels"],
        "excess": max(found.values()) - epsilon,
    }


def _model_features(rewards: Rewards) -> Floats:
    directions = rewards.directions if rewards.directions is not None else np.eye(rewards.thetas.shape[1])
    along, centres = in_full(rewards)[:, 0], (rewards.centres @ directions)[:, 0]
    return np.array([
        np.sum(directions[:, 0] ** 2), directions[0, 0] ** 2, along.max(), along.sum(), (rewards.weights * along).sum(),
        centres.max(), centres.sum(), rewards.weights.max(), len(rewards.weights),
    ])  # fmt: skip


def _label_features(rewards: Rewards, public: Floats, rng: np.random.Generator) -> Floats:
    choices = choose_pairs(rewards, public, range(0, len(public) + 1, 5), rng)
    pairs = np.array([[choice.best, choice.worst] for choice in choices], np.int64).reshape(-1, 2)
    gained = public[pairs[:, 0]] - public[pairs[:, 1]]
    margins = np.array([choice.margin for choice in choices])
    return np.array([gained[:, 0].mean(), (gained[:, 0] > 0).mean(), np.abs(gained[:, 0]).mean(), margins.mean()])


def _audited(features: list[list[Floats]], delta: float) -> float:
    """Return the lower bound of the better of two attacks: the best feature and a linear mixture of all.

    The attack is chosen on a third of the runs and audited on the others; two attacks (model, labels) are made, so each
    holds with 97.5 %.
    """
    absent, present = (np.array(rows) for rows in features)
    third = len(absent) // 3
    scale = np.vstack([absent, present]).std(axis=0) + 1e-12
    gap = (present[:third].mean(axis=0) - absent[:third].mean(axis=0)) / scale
    both = np.vstack([absent[:third] - absent[:third].mean(axis=0), present[:third] - present[:third].mean(axis=0)])
    spread = np.cov((both / scale).T) + 0.1 * np.eye(len(gap))
    weights = np.linalg.solve(spread, gap) / scale
    return audit(absent[third:] @ weights, present[third:] @ weights, delta=delta, confidence=0.975).epsilon
