"""The state of a fit on disk, from which an interrupted one goes on after its last whole iteration."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import check_readable, whole_file
from workingpapers.sampling.tensor_train_sampling.bases import KINDS, Basis
from workingpapers.sampling.tensor_train_sampling.train import FunctionalTT


def write_state(path: Path, facts: dict[str, Any], trains: list[FunctionalTT], generator: torch.Generator) -> None:
    """Write a fit to a file, whole or not at all.

    Args:
        path: The file.
        facts: Plain numbers, texts and lists that tell what was fitted and how far.
        trains: V_0, ..., V_{N-1}.
        generator: Source of the paths.
    """
    names = {kind: name for name, kind in KINDS.items()}
    state = {
        "facts": facts,
        "trains": [
            {"cores": list(one.cores),
             "bases": [(names[type(basis)], basis.low, basis.high, basis.size) for basis in one.bases]}
            for one in trains
        ],
        "generator": generator.get_state(),
    }  # fmt: skip
    with whole_file(path, "wb") as stream:
        torch.save(state, stream)


def read_state(path: Path, wanted: dict[str, Any]) -> tuple[dict[str, Any], list[FunctionalTT], torch.Tensor]:
    """Return what :func:`write_state` wrote: facts, trains and the generator's state.

    Args:
        path: The file.
        wanted: Facts that must be the same.

    Raises:
        InputError: When the file is none of these, or of another fit.
    """
    try:
        state: dict[str, Any] = torch.load(check_readable(path), weights_only=True)
        facts = state["facts"]
        changed = [name for name, value in wanted.items() if facts[name] != value]
        trains = [FunctionalTT(_bases(one["bases"]), tuple(one["cores"])) for one in state["trains"]]
        source = state["generator"]
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{str(path)!r} is no checkpoint of a fit ({type(error).__name__}); name another file or remove it."
        ) from None
    if changed:
        raise InputError(
            f"{str(path)!r} is the checkpoint of a fit with another {changed[0]}; give the same options, or name "
            "another file."
        )
    return facts, trains, source


def plain(settings: Any) -> dict[str, Any]:
    """Return settings as plain values, the number of iterations apart: a fit may go on for more of them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
        if name != "iterations"
    }


def _bases(described: list[Any]) -> tuple[Basis, ...]:
    return tuple(KINDS[name](low, high, size) for name, low, high, size in described)
