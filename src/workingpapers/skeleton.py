"""The skeleton of a paper's folder, for ``papers new``."""

from __future__ import annotations

import re
from pathlib import Path

from workingpapers.catalog.papers import AREAS
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import whole_file

_FILES = {
    "src/workingpapers/{area}/{slug}/__init__.py": '''"""TITLE: what it is for, in one line.

When to use it, when not, and where it fails.

References:
    AUTHORS, TITLE, ICML 2026, arXiv:0000.00000.
"""

from __future__ import annotations

__all__: list[str] = []
''',
    "src/workingpapers/{area}/{slug}/paper.toml": '''title = "TITLE"
method = "NAME"
authors = ["AUTHOR"]
topic = "Area · Sub-area"
venue = "ICML"
year = 2026
arxiv = "0000.00000"
extra = "{area}"
keywords = ["TERM", "TERM", "TERM"]
summary = """
SUMMARY in our own words, 60 to 200 of them.
"""

[[headline]]
result = "RESULT"
setting = "SETTING"
''',
    "src/workingpapers/{area}/{slug}/claim.py": '''"""The claims of {slug} as experiments."""

from __future__ import annotations

from workingpapers.replication.claim import Claim, Progress, Size


def method(seed: int, progress: Progress, *, rows: int) -> dict[str, float]:
    """Run the method on the data of `seed`."""
    raise NotImplementedError


def baseline(seed: int, progress: Progress, *, rows: int) -> dict[str, float]:
    """Run the baseline on the same data."""
    raise NotImplementedError


CLAIM = Claim(
    name="headline",
    statement="STATEMENT",
    metric="METRIC",
    direction="lower",
    arms={{"method": method, "baseline": baseline}},
    method="method",
    against="baseline",
    sizes={{"smallest": Size(5, {{"rows": 100}}), "small": Size(10, {{"rows": 1000}})}},
    paper_result="RESULT",
)
CLAIMS = (CLAIM,)
''',
    "tests/{area}/{slug}/test_{slug}.py": '''"""Known right values of {slug}."""
''',
}


def make(slug: str, area: str, root: Path) -> list[Path]:
    """Write the files of a new paper below `root` and return their paths.

    Raises:
        InputError: The slug is malformed or taken, the area unknown, or `root` is not a checkout.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", slug):
        raise InputError(f"The slug is {slug!r}; use lower case letters, digits and underscores, a letter first.")
    if area not in AREAS:
        hint = near_match(area, AREAS) or f"; choose one of {', '.join(AREAS)}."
        raise InputError(f"There is no area {area!r}{hint}")
    if not (root / "src" / "workingpapers").is_dir():
        raise InputError(f"{str(root)!r} is not a checkout of workingpapers; give its root with --root.")
    folder = root / "src" / "workingpapers" / area / slug
    if folder.exists():
        raise InputError(f"{str(folder)!r} exists already; choose another slug.")
    made = []
    for pattern, text in _FILES.items():
        file = root / pattern.format(area=area, slug=slug)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = text.replace("{{", "{").replace("}}", "}").replace("{slug}", slug).replace("{area}", area)
        with whole_file(file) as stream:
            stream.write(content)
        made.append(file)
    package = root / "src" / "workingpapers" / area / "__init__.py"
    if not package.exists():
        with whole_file(package) as stream:
            stream.write(f'"""Methods of the area {area}."""\n')
        made.append(package)
    return made
