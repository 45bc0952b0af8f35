"""What is generated is up to date: the README's table and one page a paper."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_generated_files_are_what_the_records_and_the_evidence_say():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"make docs: {done.stdout}{done.stderr}"


def test_every_link_of_the_documentation_leads_somewhere():
    import re

    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
