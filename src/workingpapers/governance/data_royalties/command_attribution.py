"""Commands from data to scores: attribute, retrieve, compare."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import read_text
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run_attribute(
    training: InputFile,
    outputs: InputFile,
    *,
    out: OutputFile,
    method: Literal["knn_shapley", "influence", "tracin", "leave_one_out", "shapley"] = "knn_shapley",
    work: str = "work",
    label: str = "label",
    neighbours: Annotated[int, Between(1, 1000)] = 5,
    ridge: Annotated[float, Between(0, open_low=True)] = 1.0,
    seed: int = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Score the works of a training table for every paid output.

    Args:
        training: Table (CSV or Parquet) of training rows: numeric features or embeddings, a label and the row's work.
        outputs: Table of the paid outputs: event_id, the same features and the label that the model gave.
        out: CSV of scores to write: event_id, work, score.
        method: knn_shapley and influence need no retraining; shapley and leave_one_out retrain by work, for few works.
        work: Column of the training table that names the work.
        label: Column of the label in both tables.
        neighbours: Number of neighbours (knn_shapley).
        ridge: Ridge of the logistic model (influence, leave_one_out, shapley).
        seed: Seed of the permutations (shapley with more than 14 works).
        report: HTML page to write.
    """
    from workingpapers.governance.data_royalties import tables

    data = tables.read_training(training, outputs, work, label)
    attributor = tables.attributor(data, method, neighbours=neighbours, ridge=ridge, seed=seed)
    progress(0.1, f"attributing {len(data.outputs.event_ids)} outputs by {attributor.method}")
    return tables.finish(attributor.attribute(data.outputs), out, report)


def run_retrieve(
    contexts: InputFile, *, out: OutputFile, report: OutputFile | None = None, progress: Progress = silent
) -> Outcome:
    """Score the works whose texts an answer was written from, by the exact Shapley value of its chunks.

    Args:
        contexts: JSON Lines: event_id, answer, and chunks, a list of objects with work and text, at most 12 each.
        out: CSV of scores to write: event_id, work, score.
        report: HTML page to write.
    """
    import numpy as np

    from workingpapers.governance.data_royalties import tables
    from workingpapers.governance.data_royalties.retrieval import attribute_contexts
    from workingpapers.governance.data_royalties.scores import Scores

    records: list[dict[str, Any]] = []
    for number, line in enumerate(read_text(contexts).splitlines(), start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"Line {number} of {str(contexts)!r} is not JSON ({error.msg}).") from None
            if not isinstance(record, dict):
                raise InputError(f"Line {number} of {str(contexts)!r} is not a JSON object.")
            records.append(record)
    if not records:
        raise InputError(f"{str(contexts)!r} holds no records; give one JSON object a line.")
    tables.check_event_ids([str(record.get("event_id")) for record in records], contexts)
    found: list[tuple[str, dict[str, float]]] = []
    for number, record in enumerate(records):
        progress(number / len(records), f"answer {number + 1} of {len(records)}")
        try:
            found += attribute_contexts([record])
        except InputError as error:
            raise InputError(str(error).replace("Record 1 ", f"Record {number + 1} ")) from None
    works = sorted({name for _, one in found for name in one})
    values = np.array([[one.get(name, 0.0) for name in works] for _, one in found]).reshape(len(found), len(works))
    scores = Scores([event_id for event_id, _ in found], works, values, "context_shapley (word mixture)")
    return tables.finish(scores, out, report)


def run_compare(
    ledger: str, events: InputFile, scores: InputFile, other: InputFile, *, report: OutputFile | None = None
) -> Outcome:
    """Show how differently two methods would pay the same events; nothing is booked.

    Args:
        ledger: SQLite file or postgresql:// URL of the books, for policy and registry.
        events: CSV or Parquet of events, as for post.
        scores: Scores of the first method.
        other: Scores of the second method.
        report: HTML page to write.
    """
    from workingpapers.foundations.report import paragraph, write_report
    from workingpapers.governance.data_royalties.comparison import compare_scores
    from workingpapers.governance.data_royalties.ledger import Ledger
    from workingpapers.governance.data_royalties.reports import bars

    books = Ledger.open(ledger)
    try:
        found = compare_scores(books, events, scores, other)
    finally:
        books.close()
    if not found:
        raise InputError(f"The events of {str(events)!r} hold no money to divide; name a file with paid events.")
    tables, figures, sentences = [], [], []
    for item in found:
        ranked = sorted(item.first, key=lambda name, item=item: -item.first[name])  # type: ignore[misc]
        rows = [[name, item.first[name], item.second[name]] for name in ranked[:20]]
        tables.append(Table(["provider", scores.stem, other.stem], rows, title=f"Share of the pool ({item.currency})"))
        both = {scores.stem: item.first, f"{other.stem} " if other.stem == scores.stem else other.stem: item.second}
        figures.append(bars(both, "share of the pool", f"{item.currency}: the same events, paid by two methods."))
        sentences.append(
            f"{item.currency}: {item.moved:.1%} of the pool would change hands between the two methods "
            f"(rank correlation {item.rank_correlation:.2f})."
        )
    files = []
    if report:
        files.append(
            write_report(report, "Two methods of attribution", [paragraph(" ".join(sentences)), *figures, *tables])
        )
    data = [
        {"currency": item.currency, "moved": item.moved, "first": item.first, "second": item.second} for item in found
    ]
    return Outcome(" ".join(sentences), tables, figures, files, {"comparisons": data})
