"""Take the pictures of the web page for the README: search, a paper, a check under way, in light, dark, and on a phone.

    python tools/take_web_screenshots.py [docs/images]        # needs Chromium

The page is real: a server on a data folder of its own, driven by a browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SERVE = (
    "import argparse, sys; from workingpapers.web.commands import serve; sys.exit(serve(argparse.Namespace("
    "host='127.0.0.1', port=0, token='', allow_host=[], upload_limit=64, open=False)))"
)
PICTURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("web-search", "/?q=private+preferences", {"viewport": {"width": 1280, "height": 800}}),
    ("web-paper", "/papers/residual_augmentation", {"viewport": {"width": 1280, "height": 1100}}),
    (
        "web-paper-dark",
        "/papers/residual_augmentation",
        {"viewport": {"width": 1280, "height": 1100}, "color_scheme": "dark"},
    ),
    ("web-search-zh", "/?q=差分隐私", {"viewport": {"width": 1280, "height": 800}, "locale": "zh-CN"}),
    ("web-phone", "/papers/condorcet_nash", {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}),
)


def main() -> int:
    """Take every picture."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium; install it (Debian: apt-get install chromium fonts-noto-cjk).", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "WORKINGPAPERS_DATA": data},
        )
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1].rstrip("/")
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for name, path, options in PICTURES:
                    page = browser.new_context(**{"locale": "en-US", **options}).new_page()
                    page.goto(address + path)
                    page.wait_for_load_state("networkidle")
                    page.screenshot(path=folder / f"{name}.png")
                    print(f"{folder / name}.png")
                take_a_check(browser, address, folder)
                browser.close()
        finally:
            server.terminate()
            server.wait()
    return 0


def take_a_check(browser: Any, address: str, folder: Path) -> None:
    """Take a check under way, then cancel it."""
    from playwright.sync_api import expect

    page = browser.new_context(viewport={"width": 1280, "height": 480}, locale="en-US").new_page()
    page.goto(f"{address}/papers/condorcet_nash")
    page.locator("select[name=claim]").select_option("noise")
    page.get_by_label("Seeds").fill("100")
    page.get_by_role("button", name="Start the check").click()
    expect(page.locator("#remaining")).not_to_have_text("–", timeout=300_000)
    page.screenshot(path=folder / "web-check.png")
    print(f"{folder / 'web-check'}.png")
    page.get_by_role("button", name="Cancel").click()
    page.locator(".badge.cancelled").wait_for(timeout=60_000)


if __name__ == "__main__":
    sys.exit(main())
