"""``papers run crossq index`` and ``papers run crossq search``: from documents in JSON lines to answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile, OutputFolder


def run_index(
    documents: InputFile,
    *,
    out: OutputFolder,
    queries: InputFile | None = None,
    id_field: str = "id",
    text_field: str = "text",
    bytes_per_token: Annotated[int, Between(1, 16)] = 4,
    drop: Annotated[float, Between(0, 0.75)] = 0.0,
    conditioning: Literal["document", "token", "none"] = "document",
    encoder: Path | None = None,
    max_tokens: Annotated[int, Between(4, 510)] = 180,
    steps: Annotated[int, Between(0, 100_000)] = 300,
    sample: Annotated[int, Between(2)] = 2000,
    seed: int = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Index documents for late-interaction search in a few bytes a token.

    Args:
        documents: JSON lines, one document a line, with an identifier and a text.
        out: Folder of the index; an index there is replaced when the new one is whole.
        queries: Training queries as JSON lines with text and, where known, the identifier of a relevant document in
            relevant; without them spans of the documents serve.
        id_field: Field of the identifier, a text or a whole number.
        text_field: Field of the text.
        bytes_per_token: Stored bytes for each token, on average.
        drop: Share of the tokens to leave out, those that seldom decide a score; the others get the more bytes.
        conditioning: What conditions the choice of codewords.
        encoder: Folder of a transformers encoder; the packaged MiniLM by default.
        max_tokens: Tokens of a document that are kept.
        steps: Gradient steps; 0 leaves greedy residual codes.
        sample: Documents to train on, besides those that the queries name.
        seed: Seed of the sample and the training.
        report: HTML report on the codes and their cost.
    """
    from workingpapers.inference.crossq import indexing

    plan = indexing.Plan(
        id_field, text_field, bytes_per_token, drop, conditioning, encoder, max_tokens, steps, sample, seed
    )
    return indexing.build(documents, out, queries, plan, report, progress)


def run_search(
    index: Path,
    query: str,
    *,
    k: Annotated[int, Between(1, 10_000)] = 10,
    probe: Annotated[int, Between(1)] = 1000,
    documents: InputFile | None = None,
    id_field: str = "id",
    text_field: str = "text",
    progress: Progress = silent,
) -> Outcome:
    """Find the documents of an index that answer a query.

    Args:
        index: Folder of the index.
        query: The query, a sentence or some words.
        k: Documents to show.
        probe: Documents that the pooled vectors pass on to exact scoring.
        documents: The JSON lines that were indexed, to show the texts.
        id_field: Field of the identifier.
        text_field: Field of the text.
    """
    from workingpapers.inference.crossq import indexing

    return indexing.search(index, query, k, probe, documents, (id_field, text_field), progress)
