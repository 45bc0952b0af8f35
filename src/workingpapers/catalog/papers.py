"""The papers of this library: every folder ``AREA/SLUG`` that holds a ``paper.toml``."""

from __future__ import annotations

import importlib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workingpapers.catalog.records import Record
from workingpapers.foundations.errors import InputError, near_match

if TYPE_CHECKING:
    from collections.abc import Callable

    from workingpapers.replication.claim import Claim

ROOT = Path(__file__).parent.parent
AREAS = (
    "auditing",
    "causality",
    "evaluation",
    "governance",
    "inference",
    "optimization",
    "posttraining",
    "preferences",
    "reasoning",
    "sampling",
    "spatial",
)
_REQUIRED = ("title", "method", "authors", "topic", "venue", "year", "keywords", "summary", "headline")
_KNOWN = {*_REQUIRED, "arxiv", "code", "extra", "abstract_sha256"}


@dataclass(frozen=True)
class Paper:
    """One paper of the library: its folder and its record."""

    slug: str
    area: str
    folder: Path
    title: str
    method: str
    authors: tuple[str, ...]
    topic: str
    venue: str
    year: int
    keywords: tuple[str, ...]
    summary: str
    headline: tuple[tuple[str, str], ...]
    arxiv: str = ""
    code: str = ""
    extra: str = ""
    abstract_sha256: str = ""

    @property
    def module(self) -> str:
        """Dotted name of the folder."""
        return f"workingpapers.{self.area}.{self.slug}"

    @property
    def has_command(self) -> bool:
        """Whether ``papers run`` can run it."""
        return (self.folder / "command.py").is_file()

    @property
    def has_claim(self) -> bool:
        """Whether ``papers check`` can check it."""
        return (self.folder / "claim.py").is_file()

    def record(self) -> Record:
        """Return the record for the catalog."""
        return Record(
            title=self.title,
            authors=self.authors,
            topic=self.topic,
            year=self.year,
            venue=self.venue,
            arxiv=self.arxiv,
            url=f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else "",
            keywords=self.keywords,
            slug=self.slug,
            summary=self.summary,
        )

    def claims(self) -> tuple[Claim, ...]:
        """Import ``claim.py`` and return its claims, the headline first.

        Raises:
            InputError: The paper has no claim, or the packages that it needs are not installed.
        """
        if not self.has_claim:
            raise InputError(f"{self.slug} has no claim to check; 'papers show {self.slug}' tells what it has.")
        module = self._import("claim")
        found: tuple[Claim, ...] = getattr(module, "CLAIMS", (module.CLAIM,))
        return found

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Import ``command.py`` and return its functions: ``{"": run}`` or sub-command -> ``run_*``.

        Raises:
            InputError: The paper has no command, or the packages that it needs are not installed.
        """
        if not self.has_command:
            raise InputError(f"{self.slug} has no command to run; 'papers show {self.slug}' tells how to use it.")
        module = self._import("command")
        return {
            name.removeprefix("run").removeprefix("_").replace("_", "-"): value
            for name, value in vars(module).items()
            if (name == "run" or name.startswith("run_"))
            and callable(value)
            and getattr(value, "__module__", "").startswith(self.module)
        }

    def _import(self, name: str) -> ModuleType:
        with missing_packages(self):
            return importlib.import_module(f"{self.module}.{name}")


class missing_packages:
    """Context that turns a missing third-party package into the sentence that says how to install it."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Translate a ModuleNotFoundError of another package."""
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("workingpapers"):
            extra = f"workingpapers[{self.paper.extra or 'all'},evidence]"
            raise InputError(
                f"{self.paper.slug} needs the package {error.name!r}, which is not installed; pip install '{extra}'."
            ) from None


@cache
def all_papers(root: Path = ROOT) -> tuple[Paper, ...]:
    """Return every paper, by area and slug."""
    return tuple(
        load(file) for area in AREAS for file in sorted((root / area).glob("*/paper.toml")) if file.parent.name != ""
    )


def get(slug: str) -> Paper:
    """Return the paper `slug`.

    Raises:
        InputError: There is none; a near name is offered.
    """
    known = {paper.slug: paper for paper in all_papers()}
    wanted = slug.strip().lower().replace("-", "_")
    if wanted not in known:
        hint = near_match(wanted, known) or "; 'papers list' shows them all."
        raise InputError(f"There is no paper {slug!r}{hint}")
    return known[wanted]


def load(file: Path) -> Paper:
    """Read a ``paper.toml``.

    Raises:
        ValueError: A field is missing, unknown or malformed; the message names the file and the field.
    """
    with file.open("rb") as stream:
        data = tomllib.load(stream)
    where = f"{file.parent.name}/paper.toml"
    for name in _REQUIRED:
        if not data.get(name):
            raise ValueError(f"{where}: the field {name!r} is missing")
    unknown = set(data) - _KNOWN
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]!r}")
    if not re.fullmatch(r"[^·]+ · [^·]+", data["topic"]):
        raise ValueError(f"{where}: topic is {data['topic']!r}; write 'Area · Sub-area'")
    return Paper(
        slug=file.parent.name,
        area=file.parent.parent.name,
        folder=file.parent,
        title=data["title"],
        method=data["method"],
        authors=tuple(data["authors"]),
        topic=data["topic"],
        venue=data["venue"],
        year=int(data["year"]),
        keywords=tuple(data["keywords"]),
        summary=" ".join(data["summary"].split()),
        headline=tuple((item["result"], item["setting"]) for item in data["headline"]),
        arxiv=data.get("arxiv", ""),
        code=data.get("code", ""),
        extra=data.get("extra", ""),
        abstract_sha256=data.get("abstract_sha256", ""),
    )
