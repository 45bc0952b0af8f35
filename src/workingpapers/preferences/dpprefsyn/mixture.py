"""The released model: directions, rewards and weights, with their privacy statement; fitted once, kept in one file."""

from __future__ import annotations

import json
import math
import secrets
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, whole_file
from workingpapers.foundations.privacy.noise import Noise, noise_source
from workingpapers.foundations.privacy.statement import PrivacyStatement, Stage
from workingpapers.foundations.progress import Progress, silent
from workingpapers.preferences.dpprefsyn import mechanisms
from workingpapers.preferences.dpprefsyn.budget import (
    DEFAULT,
    Plan,
    Settings,
    check_budget,
    count_records,
    kept_dimensions,
    make_statement,
    plan_budget,
)

Floats = NDArray[np.float64]
PUBLIC = (
    "the dimension of the embeddings",
    "the encoder",
    "the settings",
    "the prompts and the responses to be labelled",
)


@dataclass(frozen=True)
class Rewards:
    """What a fit releases.

    Args:
        directions: Orthonormal rows V, shape (p, d); None where all dimensions are kept.
        centres: Unit centre of each kept cluster, shape (K, p).
        thetas: Its reward, shape (K, p).
        weights: Its share of the records, noisy, shape (K,).
    """

    directions: Floats | None
    centres: Floats
    thetas: Floats
    weights: Floats

    def scores(self, embeddings: NDArray[np.floating]) -> tuple[Floats, NDArray[np.bool_]]:
        r"""Return rewards :math:`\langle \theta_k, V\psi / \lVert V\psi \rVert \rangle`, (m, K), and who has one.

        Args:
            embeddings: Unit embeddings of prompt and response, shape (n, d); m of them keep a length under V.
        """
        inner, long = mechanisms.project(embeddings, self.directions)
        return inner @ self.thetas.T, long


@dataclass(frozen=True)
class RewardMixture:
    """A fitted mixture of rewards.

    Args:
        rewards: The released numbers.
        privacy: What the release guarantees.
        budget: The epsilon that was asked for; a little more than what was spent.
        dimension: d of the embeddings.
        encoder: Name and fingerprint of the encoder.
        settings: The settings.
        name: Random name of this fit; says nothing about the data.
        records: Released number of records: noisy, and rounded down to two digits.
    """

    rewards: Rewards
    privacy: PrivacyStatement
    budget: float
    dimension: int
    encoder: str
    settings: Settings
    name: str
    records: int

    def save(self, path: Path) -> Path:
        """Write the model to an ``.npz`` file, whole or not at all.

        Args:
            path: The file.
        """
        rewards = self.rewards
        arrays = {"centres": rewards.centres, "thetas": rewards.thetas, "weights": rewards.weights}
        if rewards.directions is not None:
            arrays["directions"] = rewards.directions
        facts = {
            "kind": "dpprefsyn",
            "name": self.name,
            "budget": self.budget,
            "records": self.records,
            "dimension": self.dimension,
            "encoder": self.encoder,
            "settings": vars(self.settings),
            "privacy": self.privacy.as_dict(),
        }
        with whole_file(path, "wb") as stream:
            np.savez_compressed(stream, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]
        return path

    @classmethod
    def load(cls, path: Path) -> RewardMixture:
        """Return the model in a file.

        Args:
            path: The file.

        Raises:
            InputError: It is no such file.
        """
        try:
            with np.load(check_readable(path), allow_pickle=False) as stored:
                facts = json.loads(str(stored["facts"]))
                if facts["kind"] != "dpprefsyn":
                    raise KeyError("kind")
                arrays = {key: np.asarray(stored[key], np.float64) for key in stored.files if key != "facts"}
            rewards = Rewards(arrays.get("directions"), arrays["centres"], arrays["thetas"], arrays["weights"])
            facts["settings"]["split"] = tuple(facts["settings"]["split"])
            settings = Settings(**facts["settings"])
            privacy = _statement(facts["privacy"])
            return cls(
                rewards,
                privacy,
                float(facts["budget"]),
                int(facts["dimension"]),
                str(facts["encoder"]),
                settings,
                str(facts["name"]),
                int(facts["records"]),
            )
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{str(path)!r} is not a fitted model ({type(error).__name__}); name another file."
            ) from None


def fit_rewards(
    chosen: NDArray[np.floating],
    rejected: NDArray[np.floating],
    epsilon: float,
    delta: float,
    *,
    settings: Settings = DEFAULT,
    encoder: str = "",
    seed: int | None = None,
    insecure: bool = False,
    progress: Progress = silent,
) -> RewardMixture:
    r"""Learn a mixture of linear rewards from private preferences, (epsilon, delta)-private for each record.

    .. math:: P(a^+ \succ a^- \mid x, k) = \sigma\big(\langle \theta_k, V(\psi(x, a^+) - \psi(x, a^-)) \rangle\big)

    Each call spends the budget anew. A refusal for too few records tells their number to the caller, whose records they
    are; it is no release.

    Args:
        chosen: Unit embeddings of prompt and preferred response, shape (N, d).
        rejected: Unit embeddings of prompt and other response, shape (N, d).
        epsilon: Budget.
        delta: Budget; well below 1 / N.
        settings: What is chosen without looking at the data.
        encoder: Name of the encoder, kept with the model.
        seed: Refused unless `insecure`: with it anybody could take the noise away.
        insecure: The caller's word that this is a test.
        progress: Called along the way.

    Returns:
        The model. Nothing else that was computed from the records leaves this function.

    Raises:
        InputError: A budget that guarantees nothing, embeddings that are not of length 1, or too few records.

    References:
        F. Gao, J. Yang (2026), arXiv:2605.30808.
    """
    check_budget(epsilon, delta)
    noise = noise_source(seed, insecure=insecure)
    rows = mechanisms.difference_rows(chosen, rejected)
    if len(rows) < settings.least_records:
        raise InputError(too_few(len(rows), settings))
    dimension = rows.shape[1]
    released, first = count_records(len(rows), epsilon, noise)
    progress(0.05, "planning the noise")
    plan = plan_budget(released, dimension, epsilon - first.epsilon, delta, settings, secure=noise.secure)
    rewards = fit_plan(rows, plan, noise, progress)
    privacy = make_statement(first, plan, dimension, delta, secure=noise.secure, public=PUBLIC)
    progress(1.0, "fitted")
    name = secrets.token_hex(8)
    return RewardMixture(rewards, privacy, epsilon, dimension, encoder, settings, name, plan.records)


def fit_plan(rows: NDArray[np.floating], plan: Plan, noise: Noise, progress: Progress = silent) -> Rewards:
    """Return the rewards that a plan's noise leaves of difference rows; the caller answers for the plan.

    Args:
        rows: Differences of unit embeddings, shape (N, d).
        plan: Noise and schedule.
        noise: Source of noise.
        progress: Called along the way.
    """
    settings, dimension = plan.settings, rows.shape[1]
    inner = kept_dimensions(settings, dimension)
    progress(0.1, "principal directions")
    directions = None
    if settings.projection == "pca":
        moments = mechanisms.second_moments(rows, plan.moment_scale, noise)
        directions = mechanisms.principal_directions(moments, inner)
    elif settings.projection == "random":
        directions = _random_directions(inner, dimension, noise)
    unit, _ = mechanisms.project(rows, directions)
    progress(0.4, "clusters")
    axes = mechanisms.signed_axes(settings.clusters, inner)
    if settings.projection != "pca":  # axes that were not chosen by the data are no better than any others
        turn = _random_directions(min(inner, settings.clusters), inner, noise)
        axes = axes[:, : len(turn)] @ turn
    if settings.clusters == 1:
        centres, sizes = axes, np.array([float(plan.records)])
    else:
        centres, sizes = mechanisms.private_centres(
            unit, axes, settings.rounds, (plan.cluster_scale, plan.size_scale), noise
        )
    labels = mechanisms.nearest(unit, centres)
    kept = np.flatnonzero(sizes >= plan.size_floor)
    if not len(kept):
        kept = np.array([int(sizes.argmax())])
    sizes, centres = np.maximum(sizes[kept], plan.size_floor), centres[kept]
    weights = sizes / sizes.sum()
    if settings.rewards == "centres":
        return Rewards(directions, centres, centres, weights)
    progress(0.6, "rewards")
    place = np.full(settings.clusters, -1)
    place[kept] = np.arange(len(kept))
    member = place[labels] >= 0
    thetas = mechanisms.private_rewards(
        unit[member],
        place[labels[member]],
        sizes,
        plan.rate,
        plan.steps,
        settings.learning_rate,
        plan.gradient_scale,
        noise,
    )
    return Rewards(directions, centres, thetas, weights)


def too_few(records: int, settings: Settings) -> str:
    """Return the sentence about too few records.

    Args:
        records: How many there are.
        settings: The settings that need more.
    """
    return (
        f"There are {records} records and the noise would drown them; {settings.clusters} clusters need at least "
        f"{settings.least_records}."
    )


def _random_directions(count: int, dimension: int, noise: Noise) -> Floats:
    found, _ = np.linalg.qr(noise.gaussian(np.zeros((dimension, count)), 1.0))
    return np.asarray(found.T)


def _statement(stored: Mapping[str, Any]) -> PrivacyStatement:
    stages: Sequence[Mapping[str, Any]] = stored["stages"]
    read = []
    for stage in stages:
        facts: dict[str, Any] = {key: math.inf if value is None else value for key, value in stage.items()}
        read.append(Stage(**facts))
    return PrivacyStatement(**{**stored, "stages": tuple(read), "public": tuple(stored["public"])})
