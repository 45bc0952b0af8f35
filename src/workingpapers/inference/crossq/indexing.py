"""What the command does: read documents, train, index, search, report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.inference.crossq.codec import Codec
from workingpapers.inference.crossq.index import MultiVectorIndex
from workingpapers.inference.crossq.initial import pseudo_queries
from workingpapers.inference.crossq.quantiser import CrossQ
from workingpapers.inference.crossq.vectors import Packed, maxsim

if TYPE_CHECKING:
    from workingpapers.foundations.text_encoder import TokenEncoder

CHUNK = 256
SHOWN = 100
CHECKED_QUERIES = 100
Document = tuple[str | int, str]


@dataclass(frozen=True)
class Plan:
    """Options of the command; see :func:`~.command.run_index`."""

    id_field: str
    text_field: str
    bytes_per_token: int
    drop: float
    conditioning: Literal["document", "token", "none"]
    encoder: Path | None
    max_tokens: int
    steps: int
    sample: int
    seed: int

    @property
    def stages(self) -> int:
        """Bytes of a token that is kept."""
        return max(self.bytes_per_token, round(self.bytes_per_token / (1 - self.drop)))


def read_documents(path: Path, id_field: str, text_field: str) -> list[Document]:
    """Return identifier and text of each line.

    Args:
        path: JSON lines.
        id_field: Field of the identifier.
        text_field: Field of the text.

    Raises:
        InputError: A line is not a JSON object, lacks a field, repeats an identifier, or holds no text.
    """
    found: list[Document] = []
    seen: set[str | int] = set()
    for number, record in _records(path):
        for name in (id_field, text_field):
            if name not in record:
                hint = near_match(name, record) or f"; its fields are {', '.join(list(record)[:8])}."
                raise InputError(f"Line {number} of {str(path)!r} has no field {name!r}{hint}")
        identifier, text = record[id_field], record[text_field]
        if not isinstance(identifier, str | int) or isinstance(identifier, bool) or identifier == "":
            raise InputError(
                f"Line {number} of {str(path)!r} has the identifier {identifier!r}; use a text or a number."
            )
        if found and isinstance(identifier, str) != isinstance(found[0][0], str):
            raise InputError(f"Line {number} of {str(path)!r} mixes texts and numbers as identifiers; use one kind.")
        if identifier in seen:
            raise InputError(f"Line {number} of {str(path)!r} repeats the identifier {identifier!r}; make it unique.")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"Line {number} of {str(path)!r} has no text in {text_field!r}; leave the line out.")
        seen.add(identifier)
        found.append((identifier, text))
    return found


def read_queries(path: Path, documents: Sequence[Document]) -> tuple[list[str], list[int] | None]:
    """Return query texts and, where every line names one, the number of the relevant document.

    Args:
        path: JSON lines with text and relevant.
        documents: The documents.

    Raises:
        InputError: A line is not a JSON object or has no text, or a relevant document is unknown.
    """
    numbers = {identifier: number for number, (identifier, _) in enumerate(documents)}
    texts: list[str] = []
    relevant: list[int | None] = []
    for number, record in _records(path):
        text, answer = record.get("text"), record.get("relevant")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"Line {number} of {str(path)!r} has no text in 'text'; give the query there.")
        if answer is not None and (not isinstance(answer, str | int) or answer not in numbers):
            raise InputError(f"Line {number} of {str(path)!r} names the document {answer!r}, which is not among them.")
        texts.append(text)
        relevant.append(None if answer is None else numbers[answer])
    known = [item for item in relevant if item is not None]
    if known and len(known) < len(relevant):
        raise InputError(
            f"{len(known)} of {len(relevant)} queries name a relevant document; name it in all or in none."
        )
    return texts, known or None


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    some = False
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            raise InputError(f"Line {number} of {str(path)!r} is not JSON; give one JSON object a line.") from None
        if not isinstance(record, dict):
            raise InputError(f"Line {number} of {str(path)!r} is not a JSON object; give one a line.")
        some = True
        yield number, record
    if not some:
        raise InputError(f"{str(path)!r} holds no records; give one JSON object a line.")


def encoder_of(folder: Path | str | None) -> TokenEncoder:
    """Return the encoder of a folder, or the packaged one.

    Args:
        folder: Folder of a transformers encoder, or None.
    """
    from workingpapers.foundations.text_encoder import TokenEncoder

    return TokenEncoder.packaged() if folder is None else TokenEncoder.from_path(folder)


def build(
    source: Path, out: Path, query_file: Path | None, plan: Plan, report: Path | None, progress: Progress
) -> Outcome:
    """Train on a sample, index everything in chunks, and say what the codes keep.

    Args:
        source: Documents.
        out: Folder of the index.
        query_file: Training queries, or None.
        plan: Options.
        report: HTML report, or None.
        progress: Called along the way.
    """
    documents = read_documents(source, plan.id_field, plan.text_field)
    asked = read_queries(query_file, documents) if query_file else None
    if out.exists() and any(out.iterdir()) and not (out / "manifest.json").exists():
        raise InputError(f"{str(out)!r} exists and is not an index; name a new folder.")
    encoder = encoder_of(plan.encoder)
    rng = np.random.default_rng(plan.seed)
    chosen = rng.permutation(len(documents))[: plan.sample]
    if asked and asked[1]:
        chosen = np.union1d(chosen, asked[1])
    chosen = np.sort(chosen)
    began = time.perf_counter()
    texts = [documents[number][1] for number in chosen]
    vectors, kept = _token_vectors(encoder, texts, plan, part(progress, 0.0, 0.3))
    sample = Packed(*vectors)
    chosen = chosen[kept]
    fitted = CrossQ(
        plan.bytes_per_token, stages=plan.stages, conditioning=plan.conditioning, steps=plan.steps, seed=plan.seed
    )
    queries, positives = _training_queries(encoder, asked, chosen, plan)
    fitted.fit(*sample, queries=queries, positives=positives, progress=part(progress, 0.3, 0.5))
    noted = {"encoder": None if plan.encoder is None else str(plan.encoder.resolve()), "max_tokens": plan.max_tokens}
    stream = _stream(encoder, documents, plan, part(progress, 0.5, 0.98))
    index = MultiVectorIndex.build(out, fitted, stream, metadata=noted)
    kept_order = kept_ranking(fitted.codec, sample, plan.seed)
    return _present(index, fitted.codec, kept_order, time.perf_counter() - began, out, report)


def search(
    folder: Path, query: str, k: int, probe: int, source: Path | None, fields: tuple[str, str], progress: Progress
) -> Outcome:
    """Open an index, check its files, and answer a query.

    Args:
        folder: Folder of the index.
        query: The query.
        k: Documents to show.
        probe: Documents that the pooled vectors pass on.
        source: The documents, to show their texts, or None.
        fields: Fields of identifier and text.
        progress: Called along the way.
    """
    if not query.strip():
        raise InputError("The query is empty; give a sentence or some words.")
    texts = dict(read_documents(source, *fields)) if source else {}
    progress(0.1, "opening the index")
    index = MultiVectorIndex.open(folder, verify=True)
    encoder = encoder_of(index.metadata.get("encoder"))
    tokens, _ = encoder.token_vectors([query])
    if not len(tokens):
        raise InputError(f"The query {query!r} has no tokens; give a sentence or some words.")
    progress(0.6, "searching")
    began = time.perf_counter()
    hits = index.search(tokens, k, probe=probe)
    seconds = time.perf_counter() - began
    rows = []
    for rank, (identifier, score) in enumerate(zip(hits.ids, hits.scores, strict=True), 1):
        text = " ".join(texts.get(identifier, "").split())
        rows.append([rank, str(identifier), float(score), text[:SHOWN] + ("…" if len(text) > SHOWN else "")])
    columns = ["rank", "id", "score", "text"]
    table = Table(columns if source else columns[:3], [row if source else row[:3] for row in rows], f"{query!r}")
    summary = f"{hits.ids[0]!r} answers best of {len(index)} documents (searched in {1000 * seconds:.1f} ms)."
    data = {"hits": [{"id": i, "score": float(s)} for i, s in zip(hits.ids, hits.scores, strict=True)]}
    return Outcome(summary, [table], data=data)


def kept_ranking(codec: Codec, sample: Packed, seed: int) -> dict[str, Any]:
    """Return how well the codes keep the exact ranking of fresh pseudo-queries, against greedy residual codes.

    Args:
        codec: The codec.
        sample: Documents.
        seed: Seed of the queries, other ones than in training.
    """
    queries, _ = pseudo_queries(sample, CHECKED_QUERIES, seed + 1)
    exact = maxsim(queries, sample)
    coded = codec.encode(*sample)
    prepared = Packed(codec.prepare(queries.rows), queries.offsets)
    scores = maxsim(prepared, Packed(codec.decode(coded.rows), coded.offsets))
    depth = min(10, exact.shape[1])
    top = np.argsort(-exact, axis=1, kind="stable")[:, :depth]
    found = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    shared = [len(set(a) & set(b)) / depth for a, b in zip(top.tolist(), found.tolist(), strict=True)]
    return {
        "overlap": float(np.mean(shared)),
        "depth": depth,
        "exact": exact[0].tolist(),
        "coded": scores[0].tolist(),
        "pairs": np.stack([exact[:8].ravel(), scores[:8].ravel()]),
    }


def _training_queries(
    encoder: TokenEncoder, asked: tuple[list[str], list[int] | None] | None, chosen: np.ndarray, plan: Plan
) -> tuple[Packed | None, np.ndarray | None]:
    if asked is None:
        return None, None
    texts, relevant = asked
    (rows, offsets), kept = _token_vectors(encoder, texts, plan, silent)
    if len(kept) < len(texts) or (relevant is not None and not np.isin(relevant, chosen).all()):
        raise InputError("A query, or a document that a query names, has no tokens; leave it out.")
    positives = None if relevant is None else np.searchsorted(chosen, relevant)
    return Packed(rows, offsets), positives


def _token_vectors(
    encoder: TokenEncoder, texts: Sequence[str], plan: Plan, progress: Progress
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return vectors and offsets of the texts that have tokens, and the numbers of those texts."""
    rows, offsets = encoder.token_vectors(texts, max_tokens=plan.max_tokens, progress=progress)
    counts = np.diff(offsets)
    kept = np.flatnonzero(counts > 0)
    return (rows, np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)), kept


def _stream(
    encoder: TokenEncoder, documents: Sequence[Document], plan: Plan, progress: Progress
) -> Iterator[tuple[str | int, np.ndarray]]:
    for start in range(0, len(documents), CHUNK):
        chunk = documents[start : start + CHUNK]
        texts = [text for _, text in chunk]
        rows, offsets = encoder.token_vectors(texts, max_tokens=plan.max_tokens)
        for number, (identifier, _) in enumerate(chunk):
            if offsets[number] < offsets[number + 1]:
                yield identifier, rows[offsets[number] : offsets[number + 1]]
        progress(min(1.0, (start + CHUNK) / len(documents)), "indexing")


def _present(
    index: MultiVectorIndex, codec: Codec, kept: dict[str, Any], seconds: float, out: Path, report: Path | None
) -> Outcome:
    sizes = index.sizes()
    facts = codec.facts
    helped = facts["best step"] > 0
    summary = (
        f"{len(index)} documents with {index.tokens} stored tokens at {codec.stages} bytes each stand in {str(out)!r}. "
        f"The codes keep {100 * kept['overlap']:.0f} % of the exact best {kept['depth']} on fresh spans of the "
        "documents."
    )
    if not helped:
        summary += " Training did not improve on greedy residual codes, which are kept."
    rows: list[list[Any]] = [
        ["documents", len(index)],
        ["stored tokens", index.tokens],
        ["bytes of codes", sizes["codes"]],
        ["bytes of everything", sum(sizes.values())],
        ["bytes of float16 vectors of the same tokens", 2 * codec.width * index.tokens],
        ["validation loss before training", facts["validation loss before training"]],
        ["validation loss after training", facts["validation loss after training"]],
        ["mean squared coding error", codec.error],
        ["codewords in use", facts["codewords in use"]],
        ["exact best kept", kept["overlap"]],
        ["seconds", seconds],
    ]
    table = Table(["quantity", "value"], rows, "Index")
    figures = [_picture(kept["pairs"])]
    files = [out]
    if report is not None:
        write_report(report, "Late-interaction index", [paragraph(summary), *figures, table])
        files.append(report)
    data = {name: value for name, value in rows if name != "seconds"}
    return Outcome(summary, [table], figures, files, data)


def _picture(pairs: np.ndarray) -> Figure:
    from workingpapers.foundations.figures import canvas, to_svg

    rng = np.random.default_rng(0)
    shown = rng.choice(pairs.shape[1], size=min(2000, pairs.shape[1]), replace=False)
    with canvas(5.2, 4.2) as figure:
        axes = figure.axes[0]
        axes.scatter(pairs[0, shown], pairs[1, shown], s=7, alpha=0.45, linewidths=0)
        low, high = float(pairs[0].min()), float(pairs[0].max())
        axes.plot([low, high], [low, high], color="#D55E00", linewidth=1)
        axes.set_xlabel("exact score")
        axes.set_ylabel("score on the codes")
        axes.set_title("Eight spans of documents against the sample")
        svg = to_svg(figure)
    caption = (
        "A point is a query and a document. On the line the codes give the exact score; a ranking needs only that "
    )
    return Figure(svg, caption + "the points of a query rise together.")
