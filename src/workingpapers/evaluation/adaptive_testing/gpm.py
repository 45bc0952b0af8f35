"""The GPM selector: a policy trained on a log of answers, saved as safetensors with a JSON description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from workingpapers.evaluation.adaptive_testing.bank import Bank, check_binary, estimate
from workingpapers.evaluation.adaptive_testing.matching import (
    gradient_step,
    gumbel,
    matching_loss,
    newton_step,
    straight_through,
)
from workingpapers.evaluation.adaptive_testing.policy import Head, Policy, ResponseModel
from workingpapers.evaluation.adaptive_testing.selectors import State
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text, whole_file
from workingpapers.foundations.progress import Progress, silent

Target = Literal["path", "global"]
GRID_POINTS = 13
WARMEST, COLDEST = 1.0, 0.3


@dataclass(frozen=True)
class Settings:
    """What training does.

    Args:
        length: Number of items T of a test.
        target: Where gradients are matched: ``"path"``, at the ability that the chosen answers give, or ``"global"``,
            on a grid of 13 abilities in [-3, 3] (one dimension) or at one random ability a step (several).
        prior: Count the prior's gradient in both sums, as the estimator does. The paper's loss has no prior, and its
            estimator has none. Left out here, the loss on the path also rewards items that say little: at the mode the
            chosen answers' own gradient is minus the prior's, which is smallest where the ability has not moved.
        head: Head of the policy.
        hidden: Width of its hidden layer.
        epochs: Most passes over the training examinees.
        batch: Examinees a step.
        rate: Learning rate of Adam.
        patience: Epochs without a better validation loss before training stops.
        inner: ``"newton"``, the mode with its implicit derivative, or ``"gradient"``, the paper's plain steps.
        inner_steps: Number of plain inner steps.
        inner_rate: Their length.
        seed: Seed of weights, order and choices.
    """

    length: int = 15
    target: Target = "path"
    prior: bool = True
    head: Head = "items"
    hidden: int = 128
    epochs: int = 25
    batch: int = 200
    rate: float = 5e-3
    patience: int = 10
    inner: Literal["newton", "gradient"] = "newton"
    inner_steps: int = 10
    inner_rate: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class Training:
    """How training went.

    Args:
        losses: Mean matching loss of each epoch, shape (epochs,).
        validation: Mean squared error of the ability over the steps of a test on the validation examinees, against the
            ability that all their answers give; before training and after each epoch, shape (epochs + 1,).
        best: Epoch whose policy was kept; 0 is the untrained policy.
    """

    losses: np.ndarray
    validation: np.ndarray
    best: int


class GPMSelector:
    """The item that a policy scores highest; the policy is trained by gradient path matching.

    Args:
        bank: The calibrated items, n of them.
        settings: What training does.
    """

    name = "GPM"

    def __init__(self, bank: Bank, settings: Settings | None = None) -> None:
        self.bank = bank
        self.settings = settings or Settings()
        if not 1 <= self.settings.length <= bank.count:
            raise InputError(f"A test of {self.settings.length} items cannot be asked from {bank.count} items.")
        generator = torch.Generator().manual_seed(self.settings.seed)
        self.policy = Policy(bank, self.settings.head, self.settings.hidden, generator=generator)
        self.training: Training | None = None

    def scores(self, bank: Bank, state: State, generator: np.random.Generator) -> np.ndarray:
        """Return the policy's scores, shape (B, n).

        Raises:
            InputError: The bank is not the one that the policy was trained on.
        """
        if bank is not self.bank and bank.fingerprint != self.bank.fingerprint:
            raise InputError(
                "The bank has changed since the policy was trained on it (other items or parameters); train it again."
            )
        with torch.no_grad():
            found: Tensor = self.policy(
                torch.as_tensor(state.answered, dtype=torch.float32),
                torch.as_tensor(state.theta, dtype=torch.float32),
                state.asked.shape[1] / state.length,
            )
        return found.double().numpy()

    def fit(
        self, responses: np.ndarray, validation: np.ndarray | None = None, *, progress: Progress = silent
    ) -> GPMSelector:
        """Train the policy.

        Args:
            responses: 0, 1 or NaN, shape (N, n). Unobserved answers are never asked and never matched.
            validation: Answers of other examinees, which choose the epoch; None takes a fifth of `responses`.
            progress: Told of each batch.

        Returns:
            Itself.

        Raises:
            InputError: Shapes disagree, a response is not 0, 1 or NaN, or an examinee has fewer answers than the test.
        """
        matrix = _check_log(responses, self.bank, self.settings.length)
        if validation is None:
            held = max(1, len(matrix) // 5)
            matrix, validation = matrix[held:], matrix[:held]
        held_out = _check_log(validation, self.bank, self.settings.length)
        if not len(matrix):
            raise InputError(f"There are {len(responses)} examinees to learn from; give at least two.")
        with _one_thread():
            self.training = _train(self.policy, self.bank, matrix, held_out, self.settings, progress)
        return self

    def save(self, folder: Path) -> list[Path]:
        """Write policy.safetensors, bank and description into `folder`, which is made, and return the files."""
        from safetensors.torch import save

        folder.mkdir(parents=True, exist_ok=True)
        weights, description = folder / "policy.safetensors", folder / "policy.json"
        with whole_file(weights, "wb") as stream:
            stream.write(save({name: value.contiguous() for name, value in self.policy.state_dict().items()}))
        with whole_file(description) as stream:
            json.dump(
                {
                    "settings": asdict(self.settings),
                    "bank": {
                        "fingerprint": self.bank.fingerprint,
                        "names": self.bank.names,
                        "slope": self.bank.slope.tolist(),
                        "intercept": self.bank.intercept.tolist(),
                        "guessing": self.bank.guessing.tolist(),
                    },
                },
                stream,
                indent=1,
            )
        return [weights, description]

    @classmethod
    def load(cls, folder: Path) -> GPMSelector:
        """Return the selector that :meth:`save` wrote into `folder`.

        Raises:
            InputError: The files are missing, damaged, or the bank in them is not the one of the policy.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        description = folder / "policy.json"
        try:
            stored = json.loads(read_text(description))
            kept = stored["bank"]
            slope, intercept, guessing = (np.array(kept[key]) for key in ("slope", "intercept", "guessing"))
            bank = Bank(slope, intercept, guessing, tuple(kept["names"]))
            selector = cls(bank, Settings(**stored["settings"]))
            if bank.fingerprint != kept["fingerprint"]:
                raise InputError(f"The bank in {str(description)!r} is not the one of its policy; train it again.")
            selector.policy.load_state_dict(load_file(folder / "policy.safetensors"))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"{str(folder)!r} does not hold a saved policy ({reason}); save it again.") from None
        return selector


@contextmanager
def _one_thread() -> Iterator[None]:
    """Train on one thread: faster on tensors of this size, and the order of sums is the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


def _check_log(responses: np.ndarray, bank: Bank, length: int) -> np.ndarray:
    matrix = check_binary(responses)
    if matrix.shape[1] != bank.count:
        raise InputError(f"Responses have {matrix.shape[1]} items and the bank has {bank.count}; make them agree.")
    answers = (~np.isnan(matrix)).sum(axis=1)
    if answers.min() < length:
        short = int(np.argmin(answers))
        raise InputError(
            f"Examinee {short + 1} has {answers[short]} answers, fewer than the {length} items of the test; "
            "shorten the test or leave the examinee out."
        )
    return matrix


def _train(
    policy: Policy, bank: Bank, responses: np.ndarray, validation: np.ndarray, settings: Settings, progress: Progress
) -> Training:
    generator = torch.Generator().manual_seed(settings.seed + 1)
    optimizer = torch.optim.Adam(policy.parameters(), lr=settings.rate)
    batches = -(-len(responses) // settings.batch)
    errors, losses = [validation_error(policy, bank, validation, settings.length)], []
    best, kept = 0, {name: value.clone() for name, value in policy.state_dict().items()}
    for epoch in range(settings.epochs):
        share = epoch / max(1, settings.epochs - 1)
        temperature = WARMEST * (COLDEST / WARMEST) ** share
        order = torch.randperm(len(responses), generator=generator).numpy()
        epoch_loss = 0.0
        for number, rows in enumerate(np.array_split(order, batches)):
            loss = episode_loss(policy, bank, responses[rows], settings, temperature, generator)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            epoch_loss += float(loss.detach()) * len(rows) / len(responses)
            progress(
                (epoch + (number + 1) / batches) / settings.epochs,
                f"epoch {epoch + 1}, loss {float(loss.detach()):.3f}",
            )
        losses.append(epoch_loss / settings.length)
        errors.append(validation_error(policy, bank, validation, settings.length))
        if errors[-1] < errors[best]:
            best, kept = epoch + 1, {name: value.clone() for name, value in policy.state_dict().items()}
        elif epoch + 1 - best >= settings.patience:
            break
    policy.load_state_dict(kept)
    return Training(np.array(losses), np.array(errors), best)


def episode_loss(
    policy: Policy,
    bank: Bank,
    responses: np.ndarray,
    settings: Settings,
    temperature: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the matching loss summed over the steps of a test and averaged over examinees, a scalar.

    Only the newest choice of a step carries gradient; ability and earlier choices are constants, so memory does not
    grow through the steps.

    Args:
        policy: The policy.
        bank: The items.
        responses: 0, 1 or NaN, shape (B, n).
        settings: What training does.
        temperature: Of the relaxed choice.
        generator: Source of the choices.
    """
    model = policy.model
    y = torch.as_tensor(np.nan_to_num(responses), dtype=torch.float32)
    observed = torch.as_tensor(~np.isnan(responses), dtype=torch.float32)
    signs = (2 * y - 1) * observed
    chosen = torch.zeros_like(y)
    theta = torch.zeros(len(y), bank.dimensions)
    asked = np.empty((len(y), 0), dtype=np.int64)
    total = torch.zeros(())
    for step in range(settings.length):
        scores = policy(signs * chosen, theta, step / settings.length)
        scores = scores.masked_fill((observed == 0) | (chosen > 0), -torch.inf)
        choice = straight_through(scores, temperature, gumbel(tuple(scores.shape), generator))
        mask = chosen + choice
        asked = np.column_stack([asked, choice.detach().argmax(dim=1).numpy()])
        chosen = mask.detach()
        if settings.inner == "newton":
            answers = np.take_along_axis(responses, asked, axis=1)
            theta = torch.as_tensor(estimate(bank, asked, answers, theta.double().numpy())[0], dtype=torch.float32)
        else:
            for _ in range(settings.inner_steps):
                theta = gradient_step(model, theta, y, chosen, settings.inner_rate)
        total = total + _target_loss(model, theta, y, mask, observed, settings, generator).mean()
    return total


def _target_loss(
    model: ResponseModel,
    theta: Tensor,
    responses: Tensor,
    mask: Tensor,
    observed: Tensor,
    settings: Settings,
    generator: torch.Generator,
) -> Tensor:
    if settings.target == "path":
        if settings.inner == "newton":
            ahead = newton_step(model, theta, responses, mask)
        else:
            ahead = gradient_step(model, theta, responses, mask, settings.inner_rate)
        return matching_loss(model, ahead, responses, mask, observed, settings.prior)
    if theta.shape[1] > 1:
        anywhere = torch.randn(theta.shape, generator=generator)
        return matching_loss(model, anywhere, responses, mask, observed, settings.prior)
    points = torch.linspace(-3.0, 3.0, GRID_POINTS)
    losses = [
        matching_loss(model, torch.full_like(theta, float(at)), responses, mask, observed, settings.prior)
        for at in points
    ]
    return torch.stack(losses).mean(dim=0)


def validation_error(policy: Policy, bank: Bank, responses: np.ndarray, length: int) -> float:
    """Return the mean over examinees and steps of (theta_t - theta of all answers)^2 under the policy's first choices.

    Args:
        policy: The policy.
        bank: The items.
        responses: 0, 1 or NaN, shape (B, n).
        length: Number of items T.
    """
    observed = ~np.isnan(responses)
    signs = np.where(observed, 2 * np.nan_to_num(responses) - 1, 0.0)
    target = estimate(bank, np.broadcast_to(np.arange(bank.count), responses.shape), responses)[0]
    chosen = np.zeros(responses.shape, dtype=bool)
    asked = np.empty((len(responses), 0), dtype=np.int64)
    theta = np.zeros((len(responses), bank.dimensions))
    total = 0.0
    for step in range(length):
        with torch.no_grad():
            answered = torch.as_tensor(signs * chosen, dtype=torch.float32)
            scores = policy(answered, torch.as_tensor(theta, dtype=torch.float32), step / length).numpy()
        item = np.where(observed & ~chosen, scores, -np.inf).argmax(axis=1)
        chosen[np.arange(len(item)), item] = True
        asked = np.column_stack([asked, item])
        theta, _ = estimate(bank, asked, np.take_along_axis(responses, asked, axis=1), theta)
        total += float(((theta - target) ** 2).sum(axis=1).mean())
    return total / length
