"""A test collection from installed packages: the summary line of a docstring asks for the rest of it.

Each public object of numpy, scipy, scikit-learn and pandas with a long docstring gives a pair. The query is the
first paragraph, the document what follows up to the examples, with the object's own name masked; one document is
relevant to a query, and sibling functions are natural hard negatives. The texts, and with them the figures, belong to
the installed versions.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType

import numpy as np

from workingpapers.foundations.files import cache_directory, whole_file
from workingpapers.foundations.progress import Progress, silent
from workingpapers.inference.crossq.vectors import Packed

PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "pandas": "pandas"}
QUERY_WORDS = (5, 30)
DOCUMENT_WORDS = 40
QUERY_TOKENS = 40
DOCUMENT_TOKENS = 64


@dataclass(frozen=True)
class Collection:
    """Queries and documents; document j is the relevant one of query j.

    Args:
        names: Qualified name of each object.
        queries: Query texts.
        documents: Document texts.
    """

    names: tuple[str, ...]
    queries: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True)
class Vectors:
    """Token vectors of a collection.

    Args:
        queries: Packed query tokens.
        documents: Packed document tokens.
        name: Stands for texts, encoder and versions: a key for what is derived from them.
    """

    queries: Packed
    documents: Packed
    name: str


def docstring_collection(count: int, seed: int = 2026) -> Collection:
    """Return `count` pairs drawn at random from all that the installed packages give.

    Args:
        count: Number of pairs; fewer where there are fewer.
        seed: Seed of the draw: a part of the collection, not of an experiment.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = sorted(_pairs())
    chosen = np.sort(np.random.default_rng(seed).permutation(len(pairs))[:count])
    columns = zip(*(pairs[index] for index in chosen), strict=True)
    names, queries, documents = columns
    return Collection(tuple(names), tuple(queries), tuple(documents))


def encoded_collection(count: int, progress: Progress = silent) -> Vectors:
    """Return token vectors of a docstring collection by the packaged encoder, made once and kept in the cache.

    Args:
        count: Number of pairs.
        progress: Called along the way.
    """
    from workingpapers.foundations.text_encoder import TokenEncoder

    versions = [f"{name}={version(package)}" for name, package in PACKAGES.items()]
    key = hashlib.sha256(
        "|".join(["minilm", *versions, str((count, QUERY_TOKENS, DOCUMENT_TOKENS))]).encode()
    ).hexdigest()
    path = cache_directory() / f"crossq-docstrings-{count}-{key[:12]}.npz"
    if not path.exists():
        collection = docstring_collection(count)
        encoder = TokenEncoder.packaged(engine="torch")
        queries = encoder.token_vectors(collection.queries, max_tokens=QUERY_TOKENS)
        documents = encoder.token_vectors(collection.documents, max_tokens=DOCUMENT_TOKENS, progress=progress)
        with whole_file(path, "wb") as stream:
            np.savez(
                stream,
                q=queries[0].astype(np.float16),
                qo=queries[1],
                d=documents[0].astype(np.float16),
                do=documents[1],
            )
    with np.load(path) as kept:
        return Vectors(
            Packed(kept["q"].astype(np.float32), kept["qo"]),
            Packed(kept["d"].astype(np.float32), kept["do"]),
            path.stem,
        )


def _pairs() -> Iterator[tuple[str, str, str]]:
    seen: set[str] = set()
    asked: set[str] = set()
    for module in _modules():
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not (inspect.isroutine(value) or inspect.isclass(value) or callable(value)):
                continue
            home = getattr(value, "__module__", None) or ""
            if not home.startswith(module.__name__.split(".")[0]):
                continue
            raw = getattr(value, "__doc__", None)
            text = inspect.cleandoc(raw) if isinstance(raw, str) else ""
            if not text or text in seen:
                continue
            seen.add(text)
            pair = _split(text, name)
            if pair and pair[0] not in asked:
                asked.add(pair[0])
                yield f"{module.__name__}.{name}", *pair


def _split(text: str, name: str) -> tuple[str, str] | None:
    """Return query and document of a docstring, or None where it is too short."""
    body = re.split(r"\n(?:Examples?|References?)\n-{3,}|\n\.\. \[1\]|\nExamples?::?\n", text)[0]
    paragraphs = [" ".join(item.split()) for item in re.split(r"\n\s*\n", body) if item.strip()]
    if paragraphs and re.match(rf"\S*{re.escape(name)}\s*\(", paragraphs[0]):
        paragraphs = paragraphs[1:]
    if len(paragraphs) < 2:
        return None
    masked = re.sub(rf"\b{re.escape(name)}\b", "it", " ".join(paragraphs[1:]))
    query = re.sub(rf"\b{re.escape(name)}\b", "it", paragraphs[0])
    if not QUERY_WORDS[0] <= len(query.split()) <= QUERY_WORDS[1] or len(masked.split()) < DOCUMENT_WORDS:
        return None
    return query, masked


def _modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        yield root
        for level_one in _children(root):
            yield level_one
            yield from _children(level_one)


def _children(parent: ModuleType) -> list[ModuleType]:
    found = []
    for info in sorted(pkgutil.iter_modules(getattr(parent, "__path__", [])), key=lambda item: item.name):
        if info.name.startswith(("_", "test", "conftest", "setup")):
            continue
        try:
            found.append(importlib.import_module(f"{parent.__name__}.{info.name}"))
        except Exception:  # optional back ends of these packages fail to import in many ways; none is needed
            continue
    return found
