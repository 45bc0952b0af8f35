"""Small studies that the tests share."""

import copy

import pytest

from workingpapers.governance.ai_lifecycle import inventory

CHAT = {
    "title": "chat",
    "year": 2026,
    "functional_unit": {
        "name": "answer", "unit": "answer", "quality": "300 tokens", "volume": {"value": 1e6, "gsd": 1.5},
    },
    "grid": {
        "site": {
            "gwp": {
                "value": 384, "unit": "gCO2e/kWh", "gsd": 1.2, "source": "s", "year": 2024, "pedigree": [2, 2, 2, 2, 1],
            },
            "water": "3 L/kWh",
            "primary_energy": "9.7 MJ/kWh",
        }
    },
    "facility": {"hall": {"grid": "site", "pue": {"low": 1.1, "value": 1.2, "high": 1.4}, "wue": "0.5 L/kWh"}},
    "device": {
        "gpu": {
            "gwp": {"value": 164, "unit": "kgCO2e", "gsd": 1.4},
            "server_gwp": "5700 kgCO2e",
            "slots": 8,
            "lifespan": {"value": 4, "unit": "year", "low": 3, "high": 6},
            "utilisation": 0.6,
            "power": "700 W",
            "peak": "989e12 FLOP/s",
        }
    },
    "process": {
        "search": {
            "stage": "experimentation", "facility": "hall", "device": "gpu",
            "device_time": "900 hour", "power": "480 W",
            "shared": {
                "product": "chat", "among": ["base", "chat"], "rule": "physical",
                "device_hours": [1, 2], "tokens": [0, 1],
            },
        },
        "training": {
            "stage": "pretraining", "facility": "hall", "device": "gpu",
            "parameters": 7e9, "tokens": 2e11, "mfu": {"low": 0.3, "high": 0.5, "value": 0.4}, "load": 0.8,
        },
        "serving": {
            "stage": "inference", "per": 1000, "facility": "hall", "device": "gpu",
            "device_time": {"value": 30, "unit": "second", "gsd": 1.3}, "power": {"value": 420, "unit": "W", "sd": 40},
            "flows": {"methane_fossil": "1 mg"},
        },
    },
}  # fmt: skip


@pytest.fixture
def document():
    return copy.deepcopy(CHAT)


@pytest.fixture
def study(document):
    return inventory.parse(document)
