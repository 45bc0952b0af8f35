"""Published footprints of language models, as studies: inputs and totals as the publications give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workingpapers.governance.ai_lifecycle.inventory import parse
from workingpapers.governance.ai_lifecycle.study import Study


@dataclass(frozen=True)
class Case:
    """One published footprint.

    Args:
        name: Model.
        source: Publication.
        year: Of the publication.
        device_hours: Accelerator hours of the training run.
        watts: Mean power of one accelerator, with its share of the server where the publication counts it.
        pue: Power usage effectiveness; 1 where it is inside the power.
        intensity: Grid, kgCO2e/kWh.
        published: Published total, tCO2e.
        idle_kwh: Electricity of reserved but idle nodes, where the publication counts it.
        embodied: Card, server without cards (kgCO2e), cards in a server, lifespan (years) and mean use; or empty.
    """

    name: str
    source: str
    year: int
    device_hours: float
    watts: float
    pue: float
    intensity: float
    published: float
    idle_kwh: float = 0.0
    embodied: tuple[float, ...] = ()


_PATTERSON = "Patterson et al., arXiv 2104.10350, table 4"
CASES = (
    Case("BLOOM 176B", "Luccioni, Viguier, Ligozat, arXiv 2211.02001", 2022, 1_082_990, 400, 1.0, 0.057, 50.5,
         idle_kwh=256_646, embodied=(150, 2500, 8, 6, 0.85)),
    Case("LLaMA 65B", "Touvron et al., arXiv 2302.13971, table 15", 2023, 1_022_362, 400, 1.1, 0.385, 173),
    Case("Llama 2 34B", "Touvron et al., arXiv 2307.09288, table 2", 2023, 1_038_336, 350, 1.1, 0.385, 153.90),
    Case("Llama 2 70B", "Touvron et al., arXiv 2307.09288, table 2", 2023, 1_720_320, 400, 1.1, 0.385, 291.42),
    Case("GPT-3", _PATTERSON, 2021, 10_000 * 14.8 * 24, 330, 1.10, 0.429, 552.1),
    Case("T5", _PATTERSON, 2021, 512 * 20 * 24, 310, 1.12, 0.545, 46.7),
    Case("Meena", _PATTERSON, 2021, 1024 * 30 * 24, 289, 1.09, 0.415, 96.4),
)  # fmt: skip


def case_study(case: Case, operation_only: bool = False) -> Study:
    """Return a published footprint as a study whose functional unit is the model itself.

    Args:
        case: The case.
        operation_only: Leave out idle nodes and hardware: what a tracker of the last run sees.
    """
    about = {"source": case.source, "year": case.year}
    device: dict[str, Any] = {"lifespan": "4 year"}
    if case.embodied and not operation_only:
        card, server, slots, years, use = case.embodied
        device = {
            "gwp": {"value": card, "unit": "kgCO2e", **about},
            "server_gwp": {"value": server, "unit": "kgCO2e", **about},
            "slots": slots,
            "lifespan": {"value": years, "unit": "year", **about},
            "utilisation": {"value": use, **about},
        }
    training = {
        "stage": "pretraining", "facility": "site", "device": "accelerator",
        "device_time": {"value": case.device_hours, "unit": "hour", **about},
        "power": {"value": case.watts, "unit": "W", **about},
    }  # fmt: skip
    processes: dict[str, Any] = {"training": training}
    if case.idle_kwh and not operation_only:
        kwh = {"value": case.idle_kwh, "unit": "kWh", **about}
        processes["idle"] = {"stage": "idle", "facility": "site", "electricity": kwh}
    return parse(
        {
            "title": case.name,
            "year": case.year,
            "functional_unit": {"name": "the trained model", "unit": "model", "quality": "as published", "volume": 1},
            "boundary": {"kind": "cradle-to-gate"},
            "grid": {"site": {"gwp": {"value": case.intensity, "unit": "kgCO2e/kWh", **about}}},
            "facility": {"site": {"grid": "site", "pue": {"value": case.pue, **about}}},
            "device": {"accelerator": device},
            "process": processes,
        }
    )
