r"""Langevin sampling of the Gibbs posteriors of a network at a grid of temperatures, from the prior downwards.

The chain starts at a draw from the prior, which is the posterior at beta = 0, and is carried from each temperature to
the next: directions that the data leave free are then in equilibrium from the start, which no cold chain reaches at
large beta, where the prior is forgotten only after about :math:`2 \beta \sigma^2 / \eta` steps.

References:
    A. Maurer, E. Mirzaei, M. Pontil, arXiv:2510.06028. M. Welling and Y. W. Teh, ICML 2011.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.langevin import SGLD
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.gibbs_bounds.bernoulli import SMALLEST_SAMPLE
from workingpapers.sampling.gibbs_bounds.bounds import gibbs_bound
from workingpapers.sampling.gibbs_bounds.chains import Average, average, convergence_warnings
from workingpapers.sampling.gibbs_bounds.losses import zero_one_error
from workingpapers.sampling.gibbs_bounds.results import Recorder, SweepResult, Trace

Floats = NDArray[np.float64]
ExampleLoss = Callable[[Tensor, Tensor], Tensor]
RATIOS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)
"""Default inverse temperatures above zero, as multiples of the number of examples."""
CHUNK = 4096
ROUNDING = 1e-6
"""What single precision may add to a mean of numbers in [0, 1]."""
HOT = 0.1
"""Share of the Langevin noise that the noise of minibatches may add before a warning."""


class TemperatureSweep:
    r"""Sample :math:`e^{-\beta L(\theta)} N(\theta; 0, \sigma^2 I)` for increasing beta by (stochastic) Langevin steps.

    Args:
        model: Any module; the sweep works on a copy, in evaluation mode. All parameters that require a gradient get the
            Gaussian prior, and their present values do not matter.
        loss: ``loss(outputs, targets)`` -> one loss an example, shape (n,). Its mean is L, at this very scale. An
            attribute `scale` (width of the range) is kept beside the result.
        data: Inputs and targets, n rows each.
        betas: Inverse temperatures, increasing from 0; by default 0 and n/16, n/8, ..., 16 n.
        prior_std: sigma, chosen without looking at the data.
        lr: Step eta of :class:`workingpapers.foundations.langevin.SGLD`.
        burn_in: Steps at each temperature before anything is recorded.
        steps: Steps that are recorded, at least 4.
        prior_draws: Independent draws from the prior at beta = 0, at least 4.
        test_data: Inputs and targets to measure the error on; they influence nothing.
        error: ``error(outputs, targets)`` -> one number in [0, 1] an example, the loss that is bounded.
        batch_size: Examples of a gradient; all by default. The noise of small batches heats the chain: a warning tells
            when by more than a tenth.
        record_every: Steps between recorded states.
        warm_start: Carry the chain from one temperature to the next; else start each at a draw from the prior.
        seed: Of all noise.

    Raises:
        InputError: A value out of range, or data that do not fit.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: ExampleLoss,
        data: tuple[Tensor, Tensor],
        *,
        betas: Sequence[float] | None = None,
        prior_std: float = 1.0,
        lr: float = 0.5,
        burn_in: int = 300,
        steps: int = 300,
        prior_draws: int = 1000,
        test_data: tuple[Tensor, Tensor] | None = None,
        error: ExampleLoss = zero_one_error,
        batch_size: int | None = None,
        record_every: int = 1,
        warm_start: bool = True,
        seed: int = 0,
    ) -> None:
        self.inputs, self.targets = data
        self.n = len(self.inputs)
        if len(self.targets) != self.n or self.n < SMALLEST_SAMPLE:
            raise InputError(f"There are {self.n} inputs and {len(self.targets)} targets; give as many of both, "
                             f"{SMALLEST_SAMPLE} or more.")  # fmt: skip
        if not (0 < prior_std < math.inf and 0 < lr < math.inf):
            raise InputError(f"prior_std is {prior_std:g} and lr is {lr:g}; both must be positive numbers.")
        if record_every < 1 or steps // record_every < 4 or prior_draws < 4 or burn_in < 0:
            raise InputError(
                f"steps={steps}, record_every={record_every}, burn_in={burn_in}, prior_draws={prior_draws} record too "
                "little; record four states and four draws or more."
            )
        if batch_size is not None and not 1 <= batch_size <= self.n:
            raise InputError(f"batch_size is {batch_size}; it must be from 1 to {self.n}, the number of examples.")
        self.betas = np.asarray([0.0, *(self.n * r for r in RATIOS)] if betas is None else betas, dtype=np.float64)
        # The grid is checked here, before the long work, by the function that will use it.
        gibbs_bound(self.betas, np.zeros(len(self.betas)), np.zeros(len(self.betas)), self.n)
        self.model = copy.deepcopy(model).eval()
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise InputError("The model has no parameter that requires a gradient; there is nothing to sample.")
        self.loss, self.error, self.test_data = loss, error, test_data
        self.prior_std, self.lr, self.burn_in, self.steps = prior_std, lr, burn_in, steps
        self.prior_draws, self.batch_size, self.record_every = prior_draws, batch_size, record_every
        self.warm_start, self.seed = warm_start, seed
        self.generator = torch.Generator(device=self.parameters[0].device)
        scale = getattr(loss, "scale", None)
        self.loss_scale = None if scale is None else float(scale)

    def run(self, state: str | os.PathLike[str] | None = None, progress: Progress = silent) -> SweepResult:
        """Sample all temperatures and return the means.

        Args:
            state: File that keeps what is done after each temperature. Where it exists, the sweep goes on from there
                and ends with the same numbers as one that was not interrupted.
            progress: Told of the share done, with loss and error.

        Raises:
            InputError: A loss that is not finite or not one an example, a diverging chain (with the step where it
                happens), or a state file of another sweep.
        """
        self.generator.manual_seed(self.seed)
        traces = self._load(Path(state)) if state is not None and Path(state).exists() else []
        for k in range(len(traces), len(self.betas)):
            share = _Share(progress, k, len(self.betas), float(self.betas[k]))
            traces.append(self._prior(share) if k == 0 else self._chain(float(self.betas[k]), share))
            if state is not None:
                self._save(Path(state), traces)
        return self._summarise(tuple(traces))

    def _prior(self, share: _Share) -> Trace:
        recorder = Recorder()
        for draw in range(self.prior_draws):
            self._draw_from_prior()
            self._record(recorder, *self._evaluate(self.inputs, self.targets))
            share(draw / self.prior_draws, recorder)
        return recorder.trace()

    def _chain(self, beta: float, share: _Share) -> Trace:
        if not self.warm_start:
            self._draw_from_prior()
        optimiser = SGLD(self.parameters, self.lr, beta, self.prior_std, self.generator)
        recorder, total = Recorder(), self.burn_in + self.steps
        for number in range(total):
            kept = number >= self.burn_in and (number - self.burn_in) % self.record_every == 0
            loss, error = self._gradient(kept)
            if not math.isfinite(loss):
                raise InputError(
                    f"The loss is {loss} at step {number + 1} of beta {beta:g}: the chain diverged; take an lr smaller "
                    f"than {self.lr:g} or a smaller prior_std."
                )
            if kept:
                self._record(recorder, loss, error)
            optimiser.step()
            share(number / total, recorder, loss)
        return recorder.trace(self._heat(beta))

    def _gradient(self, kept: bool) -> tuple[float, float]:
        """Set the gradients; return loss and error at the present state, on all data where they are to be kept."""
        self.model.zero_grad(set_to_none=True)
        if self.batch_size is None:
            outputs = self.model(self.inputs)
            losses = self._losses(outputs, self.targets)
            loss = losses.mean()
            loss.backward()  # type: ignore[no-untyped-call]
            return float(loss.detach()), float(self.error(outputs.detach(), self.targets).mean()) if kept else math.nan
        seen = self._evaluate(self.inputs, self.targets) if kept else None
        batch = self._batch_loss()
        batch.backward()  # type: ignore[no-untyped-call]
        return seen or (float(batch.detach()), math.nan)

    def _batch_loss(self) -> Tensor:
        rows = torch.randint(
            self.n, (self.batch_size or self.n,), generator=self.generator, device=self.generator.device
        )
        return self._losses(self.model(self.inputs[rows]), self.targets[rows]).mean()

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = self.loss(outputs, targets)
        if losses.shape != (len(targets),):
            raise InputError(f"The loss returned shape {tuple(losses.shape)} for {len(targets)} examples; it must "
                             "return one number an example (reduction='none').")  # fmt: skip
        return losses

    @torch.no_grad()
    def _evaluate(self, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
        loss = error = 0.0
        for x, y in zip(_chunks(inputs), _chunks(targets), strict=True):
            outputs = self.model(x)
            loss += float(self._losses(outputs, y).double().sum())
            error += float(self.error(outputs, y).double().sum())
        return loss / len(targets), error / len(targets)

    def _record(self, recorder: Recorder, loss: float, error: float) -> None:
        if not math.isfinite(loss):
            raise InputError(f"The loss of a draw from the prior is {loss}; take a smaller prior_std or another loss.")
        if not -ROUNDING <= error <= 1 + ROUNDING:
            raise InputError(f"The mean error of a network is {error:g}; the error must lie in [0, 1].")
        recorder.losses.append(loss)
        recorder.errors.append(min(max(error, 0.0), 1.0))
        if self.test_data is not None:
            recorder.test_errors.append(self._evaluate(*self.test_data)[1])

    @torch.no_grad()
    def _draw_from_prior(self) -> None:
        for parameter in self.parameters:
            parameter.normal_(0, self.prior_std, generator=self.generator)

    def _heat(self, beta: float) -> float:
        """Return variance of the minibatch noise over that of the Langevin noise: (eta/2)^2 v / (eta/beta)."""
        if self.batch_size is None:
            return 0.0
        gradients = []
        for _ in range(8):
            parts = torch.autograd.grad(self._batch_loss(), self.parameters, allow_unused=True)
            gradients.append(torch.cat([part.reshape(-1) for part in parts if part is not None]))
        return float(torch.stack(gradients).var(dim=0).mean()) * self.lr * beta / 4

    def _summarise(self, traces: tuple[Trace, ...]) -> SweepResult:
        losses = [average(trace.losses) for trace in traces]
        errors = [average(trace.errors) for trace in traces]
        hot = tuple(
            f"At beta {beta:g} the noise of minibatches adds {trace.heat:.0%} to the temperature; take a smaller lr or "
            "larger batches."
            for beta, trace in zip(self.betas, traces, strict=True)
            if trace.heat > HOT
        )
        return SweepResult(
            betas=self.betas,
            n=self.n,
            loss_scale=self.loss_scale,
            losses=_column(losses, "mean"),
            errors=_column(errors, "mean"),
            test_errors=None if self.test_data is None else np.array([trace.test_errors.mean() for trace in traces]),
            loss_standard_errors=_column(losses, "standard_error"),
            error_standard_errors=_column(errors, "standard_error"),
            traces=traces,
            warnings=convergence_warnings(self.betas, losses) + hot,
        )

    def _fingerprint(self) -> str:
        settings: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("prior_std", "lr", "burn_in", "steps", "prior_draws", "batch_size", "record_every",
                         "warm_start", "seed")
        }  # fmt: skip
        settings["betas"] = self.betas.tolist()
        settings["model"] = [[name, list(value.shape)] for name, value in self.model.named_parameters()]
        settings["loss"], settings["error"] = _name(self.loss), _name(self.error)
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        frozen = [parameter for parameter in self.model.parameters() if not parameter.requires_grad]
        for tensor in (self.inputs, self.targets, *(self.test_data or ()), *frozen, *self.model.buffers()):
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _save(self, path: Path, traces: list[Trace]) -> None:
        content = {
            "fingerprint": self._fingerprint(),
            "parameters": parameters_to_vector(self.parameters).detach().cpu(),
            "generator": self.generator.get_state(),
            "traces": [
                [torch.from_numpy(part) for part in (trace.losses, trace.errors, trace.test_errors)] + [trace.heat]
                for trace in traces
            ],
        }
        with whole_file(path, "wb") as stream:
            torch.save(content, stream)

    def _load(self, path: Path) -> list[Trace]:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
            fingerprint, traces = content["fingerprint"], content["traces"]
        except Exception:
            raise InputError(f"{str(path)!r} is no state of a sweep; name another file or remove it.") from None
        if fingerprint != self._fingerprint():
            raise InputError(
                f"{str(path)!r} belongs to a sweep of other data or settings; name another file or remove it."
            )
        vector_to_parameters(content["parameters"].to(self.parameters[0].device), self.parameters)
        self.generator.set_state(content["generator"])
        return [Trace(a.numpy(), b.numpy(), c.numpy(), heat) for a, b, c, heat in traces]


class _Share:
    """Progress of one temperature, told every few steps."""

    def __init__(self, progress: Progress, done: int, total: int, beta: float) -> None:
        self.progress, self.done, self.total, self.beta, self.calls = progress, done, total, beta, 0

    def __call__(self, fraction: float, recorder: Recorder, loss: float | None = None) -> None:
        self.calls += 1
        if self.calls % 20 != 1:
            return
        shown = loss if loss is not None else recorder.losses[-1]
        error = f", training error {recorder.errors[-1]:.3f}" if recorder.errors else ""
        self.progress((self.done + fraction) / self.total, f"beta {self.beta:g}: loss {shown:.4f}{error}")


def random_labels(targets: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    """Return uniformly random classes in the shape and dtype of `targets`: labels that nothing can predict.

    Args:
        targets: Classes, integer, shape (n,).
        classes: Number C of classes, at least 2.
        generator: Source of the labels.

    Raises:
        InputError: Fewer than two classes.
    """
    if classes < 2:
        raise InputError(f"There are {classes} classes; random labels need two or more.")
    return torch.randint(classes, targets.shape, generator=generator, dtype=targets.dtype, device=targets.device)


def _chunks(rows: Tensor) -> list[Tensor]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]


def _column(averages: list[Average], name: str) -> Floats:
    return np.array([getattr(item, name) for item in averages], dtype=np.float64)


def _name(function: ExampleLoss) -> str:
    """Return a name that is the same in every process; the default repr of an object holds its address."""
    named = getattr(function, "__qualname__", None) or repr(function)
    return type(function).__qualname__ if " at 0x" in named else str(named)
