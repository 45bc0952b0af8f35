r"""Projection on a manifold that is known by samples alone, learned by denoising.

For codes z and noise :math:`\epsilon \sim N(0, \sigma^2 I)` the projector minimises
:math:`E|\Pi(z + \epsilon) - z|^2`. Its minimiser is the posterior mean of z, which moves noisy codes back to the
manifold when :math:`\sigma` is above the distance of neighbouring codes and below the reach of the manifold. Then
:math:`\zeta(z) = z - \Pi(z)` vanishes near the manifold only.

References:
    F. Hartwig, J. Sassen, J. Braunsmann, M. Rumpf, B. Wirth, arXiv:2510.09468.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor, nn

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.sampling.latent_manifold.constraints import Constraint, FunctionConstraint, normal_frames
from workingpapers.sampling.latent_manifold.kernel import KernelConstraint

NEIGHBOUR_SHARE = 2.0  # automatic sigma, in mean distances to the nearest neighbour
PROBES = 512


class DenoisingProjector(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learned projection :math:`\Pi_\sigma` on the manifold of codes.

    Args:
        method: ``kernel``, the exact minimiser over the given codes (no training, cost N a call), or ``network``.
        targets: What the network is trained on. ``samples``: the clean code, as in the paper. ``posterior``: the kernel
            projector's value at noisy codes, which has the same minimiser without the noise of single samples, and
            lets the noise reach as far as `spread`.
        spread: For ``posterior`` targets, noise is scaled by a uniform number in [0, spread].
        hidden: Widths of the hidden layers (ELU).
        layer_norm: Whether the first layer is normalised.
        steps: Training steps.
        batch_size: Codes a step.
        learning_rate: Of Adam; it falls to zero along a cosine.
        weight_decay: Of Adam, added to the gradient.
        seed: Seed of weights, batches and noise.

    Attributes:
        codes\_: The codes, shape (N, l), float64.
        sigma\_: Noise in units of the codes.
        dimension\_: Intrinsic dimension d: the number of singular values of the Jacobian of :math:`\zeta` on codes that
            are below one half, median over codes.
        residual\_: Mean :math:`|\zeta|` on the codes.
        contrast\_: Mean :math:`|\zeta|` at distance two sigma along normals, over `residual_`. Below 5 the projector
            does not see where the manifold is.
        losses\_: Training losses, one each hundredth of the steps.

    References:
        Hartwig et al., arXiv:2510.09468.
    """

    def __init__(
        self,
        method: Literal["kernel", "network"] = "kernel",
        targets: Literal["samples", "posterior"] = "posterior",
        spread: float = 4.0,
        hidden: tuple[int, ...] = (128, 128, 128),
        layer_norm: bool = False,
        steps: int = 3000,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.targets = targets
        self.spread = spread
        self.hidden = hidden
        self.layer_norm = layer_norm
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.seed = seed

    def fit(
        self,
        codes: Any,
        y: Any = None,
        *,
        sigma: float | Literal["auto"] = "auto",
        sample_weight: Any = None,
        progress: Progress = silent,
    ) -> DenoisingProjector:
        """Fit the projector.

        Args:
            codes: Shape (N, l), an array or a tensor.
            y: Ignored.
            sigma: Noise in units of the codes; ``auto`` takes twice the mean distance to the nearest neighbour.
            sample_weight: Positive weights of the codes, shape (N,).
            progress: Called during training with the loss.

        Raises:
            InputError: Codes are not a finite table of two or more distinct rows, sigma is not positive, or training
                diverges.
        """
        self.codes_ = check_codes(codes)
        self.sigma_ = automatic_sigma(self.codes_) if sigma == "auto" else float(sigma)
        if not (self.sigma_ > 0 and math.isfinite(self.sigma_)):
            raise InputError(f"sigma is {sigma}; give a positive number, or 'auto' for codes that differ.")
        self.log_weights_ = None
        if sample_weight is not None:
            self.log_weights_ = torch.log(torch.as_tensor(np.asarray(sample_weight), dtype=torch.float64))
        kernel = KernelConstraint(self.codes_, self.sigma_, self.log_weights_)
        self.losses_: list[float] = []
        self.constraint_: Constraint = kernel
        if self.method == "network":
            self.network_ = self._train(kernel, progress)
            self.constraint_ = FunctionConstraint(lambda z: z - self.network_(z))
        self._measure()
        return self

    def project(self, z: Tensor) -> Tensor:
        """Return Pi(z), float64, shape (n, l), of a tensor of codes of shape (n, l)."""
        return z - self.constraint_(z)

    def transform(self, codes: Any) -> np.ndarray:
        """Return Pi(z) as an array, shape (n, l), of codes of shape (n, l)."""
        with torch.no_grad():
            return self.project(check_codes(codes, least=1)).cpu().numpy()

    def _measure(self) -> None:
        with torch.no_grad():
            probes = self.codes_[:: max(1, len(self.codes_) // PROBES)]
            values = torch.linalg.svdvals(self.constraint_.jacobian(probes))
            self.residual_ = float(torch.linalg.vector_norm(self.constraint_(probes), dim=-1).mean())
            self.dimension_ = int((values < 0.5).sum(-1).median())
            self.contrast_ = contrast(self.constraint_, probes, 2 * self.sigma_, self.dimension_, self.residual_)

    def _train(self, kernel: KernelConstraint, progress: Progress) -> nn.Module:
        generator = torch.Generator().manual_seed(self.seed)
        center = self.codes_.mean(0)
        scale = float((self.codes_ - center).square().mean().sqrt())
        network = _network(self.codes_.shape[1], self.hidden, self.layer_norm, center, scale, generator)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        weights = torch.ones(len(self.codes_)) if self.log_weights_ is None else self.log_weights_.exp()
        pending = 0.0
        every = max(1, self.steps // 100)
        for step in range(1, self.steps + 1):
            index = torch.multinomial(weights, self.batch_size, replacement=True, generator=generator)
            clean = self.codes_[index]
            noise = self.sigma_ * torch.randn(clean.shape, generator=generator, dtype=clean.dtype)
            if self.targets == "posterior":
                noise *= self.spread * torch.rand(len(clean), 1, generator=generator, dtype=clean.dtype)
            noisy = clean + noise
            with torch.no_grad():
                target = kernel.project(noisy) if self.targets == "posterior" else clean
            error = (network(noisy.float()) - target.float()) / self.sigma_
            loss = error.square().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            pending += loss.item() / every
            if not math.isfinite(pending):
                raise InputError(f"Training diverged at step {step}; lower learning_rate ({self.learning_rate:g}).")
            if step % every == 0:
                self.losses_.append(pending)
                progress(step / self.steps, f"step {step}: loss {pending:.4g} sigma²")
                pending = 0.0
        return copy.deepcopy(network).double().eval().requires_grad_(False)


class _Residual(nn.Module):
    """y + s f((y - c) / s): a network that starts near the identity map and does not depend on units."""

    def __init__(self, body: nn.Module, center: Tensor, scale: float) -> None:
        super().__init__()
        self.body = body
        self.scale = scale
        self.center: Tensor
        self.register_buffer("center", center.float())

    def forward(self, y: Tensor) -> Tensor:
        moved: Tensor = self.body((y - self.center) / self.scale)
        return y + self.scale * moved


def _network(
    width: int, hidden: tuple[int, ...], layer_norm: bool, center: Tensor, scale: float, generator: torch.Generator
) -> nn.Module:
    sizes = (width, *hidden)
    layers: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        layers += [
            nn.Linear(inputs, outputs),
            *([nn.LayerNorm(outputs)] if layer_norm and not number else []),
            nn.ELU(),
        ]
    last = nn.Linear(sizes[-1], width)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
    nn.init.normal_(last.weight, std=0.1 * math.sqrt(2 / sizes[-1]), generator=generator)
    nn.init.zeros_(last.bias)
    return _Residual(nn.Sequential(*layers, last), center, scale)


def contrast(constraint: Constraint, codes: Tensor, distance: float, dimension: int, residual: float) -> float:
    r"""Return mean :math:`|\zeta|` at `distance` from the codes along normals, over its mean on the codes.

    Args:
        constraint: The learned constraint.
        codes: Shape (n, l).
        distance: In units of the codes; half the reach of the manifold is the telling one.
        dimension: Intrinsic dimension d.
        residual: Mean residual on the codes.
    """
    normals = codes.shape[1] - dimension
    if normals < 1 or residual == 0:
        return math.nan
    frames = normal_frames(constraint.jacobian(codes).mT, normals)
    away = [codes + sign * distance * frames[..., column] for sign in (-1, 1) for column in range(normals)]
    return float(torch.linalg.vector_norm(constraint(torch.cat(away)), dim=-1).mean()) / residual


def automatic_sigma(codes: Tensor) -> float:
    """Return twice the mean distance of the codes to their nearest neighbours.

    Args:
        codes: Shape (N, l).
    """
    from scipy.spatial import cKDTree

    points = np.unique(codes.cpu().numpy(), axis=0)
    distances, _ = cKDTree(points).query(points, k=2)
    return NEIGHBOUR_SHARE * float(distances[:, 1].mean())


def check_codes(codes: Any, least: int = 2) -> Tensor:
    """Return codes as a float64 tensor of shape (N, l).

    Args:
        codes: An array or tensor.
        least: Smallest number of rows.

    Raises:
        InputError: They are not a table of finite numbers with `least` rows.
    """
    try:
        found = codes if isinstance(codes, Tensor) else torch.from_numpy(np.asarray(codes, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"The codes are no numbers ({type(codes).__name__}); give an array of shape (N, l).") from None
    if found.ndim != 2 or found.shape[0] < least or found.shape[1] < 1:
        raise InputError(f"The codes have shape {tuple(found.shape)}; give (N, l) with at least {least} rows.")
    found = found.detach().to(torch.float64)
    if not torch.isfinite(found).all():
        row = int(torch.nonzero(~torch.isfinite(found).all(-1))[0])
        raise InputError(f"Row {row} of the codes is not finite; remove or repair it.")
    return found
