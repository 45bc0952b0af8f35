"""The conditional quantiser as a torch module, and its losses: what training moves and what it is moved by."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workingpapers.inference.crossq.codec import LAYERS

Conditioning = Literal["document", "token", "none"]


class ConditionalQuantiser(nn.Module):
    """Residual codebooks whose choice of codeword is conditioned on the token and its document.

    The shift W starts at zero, so that training starts exactly at greedy residual quantisation.

    Args:
        codebooks: Initial codebooks, shape (M, K, d).
        conditioning: ``"document"`` (token and context), ``"token"`` (token alone) or ``"none"`` (plain residuals).
        hidden: Width h of the layers.
        projection: Linear map before coding to be trained too, shape (D, d), or None.
        seed: Seed of the initial weights.
    """

    def __init__(
        self,
        codebooks: np.ndarray,
        conditioning: Conditioning = "document",
        hidden: int = 64,
        projection: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        stages, _, width = codebooks.shape
        generator = torch.Generator().manual_seed(seed)

        def weights(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(rows, columns, generator=generator) * rows**-0.5)

        self.conditioning = conditioning
        self.scale = hidden**-0.5
        self.codebooks = nn.Parameter(torch.tensor(codebooks, dtype=torch.float32))
        self.log_temperature = nn.Parameter(torch.tensor(0.05).log())
        self.projection = None if projection is None else nn.Parameter(torch.tensor(projection))
        if conditioning != "none":
            self.phi_in = weights(width, hidden)
            self.phi_in_bias = nn.Parameter(torch.zeros(hidden))
            self.phi_out = weights(hidden, hidden)
            self.phi_out_bias = nn.Parameter(torch.zeros(hidden))
            self.rho = weights(hidden, hidden)
            self.rho_bias = nn.Parameter(torch.zeros(hidden))
            self.mix = weights(width + hidden, hidden)
            self.mix_bias = nn.Parameter(torch.zeros(hidden))
            self.shift = nn.Parameter(torch.zeros(stages, hidden, width))

    def prepare(self, rows: Tensor) -> Tensor:
        """Return rows as the code sees them, shape (n, d).

        Args:
            rows: Rows, shape (n, D); prepared rows where the projection is not trained.
        """
        return rows if self.projection is None else functional.normalize(rows @ self.projection, dim=-1)

    def context(self, rows: Tensor, owner: Tensor, documents: int) -> Tensor | None:
        """Return c_D of each document, shape (documents, h), or None.

        Args:
            rows: All tokens of these documents, shape (n, d).
            owner: Document of each token, shape (n,).
            documents: Number of documents.
        """
        if self.conditioning != "document":
            return None
        hidden = torch.relu(rows @ self.phi_in + self.phi_in_bias)
        sums = rows.new_zeros(documents, hidden.shape[1]).index_add(0, owner, hidden)
        mean = sums / torch.bincount(owner, minlength=documents)[:, None]
        return torch.relu(mean @ self.phi_out + self.phi_out_bias) @ self.rho + self.rho_bias

    def forward(self, rows: Tensor, context: Tensor | None) -> Tensor:
        """Return decoded rows, shape (n, d): hard codewords forward, soft assignments backward.

        Args:
            rows: Prepared tokens, shape (n, d).
            context: Context of the document of each token, shape (n, h), or None.
        """
        moved = self._moved(rows, context)
        temperature = self.log_temperature.exp()
        residual, decoded = rows, torch.zeros_like(rows)
        for stage, codebook in enumerate(self.codebooks):
            target = residual if moved is None else residual + moved @ self.shift[stage]
            value = straight_through(target, codebook, temperature)
            residual, decoded = residual - value, decoded + value
        return decoded

    def _moved(self, rows: Tensor, context: Tensor | None) -> Tensor | None:
        if self.conditioning == "none":
            return None
        width = rows.shape[1]
        mixed = rows @ self.mix[:width] + self.mix_bias
        hidden: Tensor = torch.relu(mixed if context is None else mixed + context @ self.mix[width:])
        scaled: Tensor = self.scale * hidden
        return scaled

    @torch.no_grad()
    def hard(self, rows: Tensor, context: Tensor | None) -> Tensor:
        """Return decoded rows without what gradients need; equal to :meth:`forward`.

        Args:
            rows: Prepared tokens, shape (n, d).
            context: Context of the document of each token, shape (n, h), or None.
        """
        moved = self._moved(rows, context)
        residual = rows.clone()
        for stage, codebook in enumerate(self.codebooks):
            target = residual if moved is None else residual + moved @ self.shift[stage]
            residual -= codebook[_logits(target, codebook).argmax(dim=1)]
        return rows - residual

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the layers as arrays for a :class:`~.codec.Codec`; empty without conditioning."""
        if self.conditioning == "none":
            return {}
        found = {name: getattr(self, name).detach().numpy().copy() for name in LAYERS}
        return {**found, "shift": np.float32(self.scale) * found["shift"]}


def straight_through(target: Tensor, codebook: Tensor, temperature: Tensor) -> Tensor:
    r"""Return the nearest codewords, with the gradient of a soft choice.

    The value is :math:`C_k` with :math:`k = \arg\max_k \ell_k`, :math:`\ell_k = 2 t \cdot C_k - \|C_k\|^2`. The
    codeword takes its own gradient; the target takes that of :math:`\sum_k p_k C_k`, :math:`p = \mathrm{softmax}(\ell
    / \tau)`.

    Args:
        target: t, shape (n, d).
        codebook: C, shape (K, d).
        temperature: tau, a positive scalar.
    """
    logits = _logits(target, codebook.detach())
    soft = torch.softmax(logits / temperature, dim=1) @ codebook.detach()
    return codebook[logits.argmax(dim=1)] + soft - soft.detach()


def _logits(target: Tensor, codebook: Tensor) -> Tensor:
    return 2 * target @ codebook.T - codebook.square().sum(dim=1)


def distillation_loss(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Return :math:`\mathrm{KL}(\mathrm{softmax}(s / T) \,\|\, \mathrm{softmax}(\hat s / T))`, mean over queries.

    A constant added to all scores of a query changes nothing: the loss sees differences between candidates alone.

    Args:
        teacher: Full-precision scores, shape (queries, candidates).
        student: Scores of the codes, shape (queries, candidates).
        temperature: T.
    """
    wanted = torch.log_softmax(teacher / temperature, dim=1)
    given = torch.log_softmax(student / temperature, dim=1)
    return functional.kl_div(given, wanted, reduction="batchmean", log_target=True)


def ranking_loss(student: Tensor, margin: float = 0.0) -> Tensor:
    r"""Return :math:`\mathrm{softplus}(\mu - (\hat s_+ - \hat s_-))`, mean over queries and hard negatives.

    Args:
        student: Scores of the codes, shape (queries, candidates), the positive in column 0.
        margin: mu, the gap to a hard negative that is asked for, in units of the score.
    """
    return functional.softplus(margin - (student[:, :1] - student[:, 1:])).mean()
