"""Take the picture of the README: ``papers check`` on the terminal, beside the report that it wrote.

    make demo && python tools/take_screenshot.py        # needs Chromium

Both halves are real: the terminal output of the commands on the results of ``make demo``, and its report.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
COMMANDS = (
    ("search", "more training rows for regression", "--limit", "1"),
    ("check", "residual_augmentation", "--size", "smallest", "--reuse", "--out", "demo/check"),
)


def terminal() -> str:
    """Return the output of the commands as SVG."""
    environment = {**os.environ, "WORKINGPAPERS_DATA": "demo/data", "FORCE_COLOR": "1", "COLUMNS": "86"}
    console = Console(record=True, width=86, file=io.StringIO())
    for words in COMMANDS:
        console.print(f"$ papers {' '.join(words)}", style="bold")
        done = subprocess.run(
            [sys.executable, "-m", "workingpapers.cli", *words],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        console.print(Text.from_ansi(done.stdout))
    return console.export_svg(title="papers")


def main() -> None:
    """Write docs/images/demo.png."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        sys.exit("Chromium is not installed; install it and try again.")
    report = (ROOT / "demo" / "check" / "report.html").read_text(encoding="utf-8")
    style = report[report.index("<style>") : report.index("</style>") + len("</style>")]
    body = report[report.index("<body>") + len("<body>") :]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(
            f'<!doctype html><meta charset="utf-8">{style}<style>body{{max-width:none;display:flex;gap:24px;'
            "padding:16px;background:#eef1f4;align-items:flex-start}.half{flex:1;min-width:0}.half svg{max-width:100%}"
            ".page{background:#fff;padding:12px 24px;border-radius:8px;max-height:900px;overflow:hidden;"
            "zoom:.8}</style>"
            f'<div class="half">{terminal()}</div><div class="half page">{body}</div>',
            encoding="utf-8",
        )
        target = ROOT / "docs" / "images" / "demo.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                f"--user-data-dir={folder}/profile", "--window-size=1600,780", f"--screenshot={target}", page.as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        print(f"Wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
