"""The command: read everything, fit once, ask for responses, label them. Files stand beside the output."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workingpapers.foundations.conversations import Prompt
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import cache_directory, check_writable, whole_file, write_secret
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.privacy.noise import noise_source
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.preferences.dpprefsyn.budget import Settings, check_budget
from workingpapers.preferences.dpprefsyn.encoding import Encoder, load_encoder
from workingpapers.preferences.dpprefsyn.generation import ResponseFile, Sampling, generate, pool_responses
from workingpapers.preferences.dpprefsyn.mixture import RewardMixture, fit_rewards, too_few
from workingpapers.preferences.dpprefsyn.pictures import margin_picture, mixture_picture
from workingpapers.preferences.dpprefsyn.synthesis import Synthesis, embed_all, label_responses
from workingpapers.preferences.dpprefsyn.texts import (
    Preference,
    read_pool,
    read_preferences,
    read_prompts,
    text_to_embed,
)

SHOWN = 60
TRIALS = 3  # prompts that may go without a response before the model counts as not working


@dataclass(frozen=True)
class Request:
    """What the command was asked for.

    Args:
        preferences: File of the private records.
        prompts: File of the public prompts.
        out: File of the synthetic records.
        epsilon: Budget.
        delta: Budget.
        settings: Of the fit.
        encoder: Folder of the encoder; None for the packaged one.
        candidates: File of a pool of responses.
        sampling: How a model is asked, where there is no pool.
        base_url: Address of the endpoint.
        connections: Requests at a time.
        min_margin: Least margin of a pair.
        keep: Share of pairs to keep in its place.
        draw: Seed of the draw of clusters.
        seed: Seed of the noise.
        insecure: The caller's word that this is a test.
        refit: Whether to spend the budget again.
        report: HTML report.
    """

    preferences: Path
    prompts: Path
    out: Path
    epsilon: float
    delta: float
    settings: Settings
    encoder: Path | None
    candidates: Path | None
    sampling: Sampling | None
    base_url: str | None
    connections: int
    min_margin: float
    keep: float | None
    draw: int
    seed: int | None
    insecure: bool
    refit: bool
    report: Path | None

    def beside(self, ending: str) -> Path:
        """Return the path of a file that stands beside the output."""
        return self.out.with_name(f"{self.out.name}.{ending}")


def run_request(request: Request, progress: Progress) -> Outcome:
    """Do what the command was asked for.

    Args:
        request: What that is.
        progress: Called along the way.

    Raises:
        InputError: Something of it cannot be used; nothing has been spent then.
    """
    check_budget(request.epsilon, request.delta)
    noise_source(request.seed, insecure=request.insecure)
    if (request.candidates is None) == (request.sampling is None):
        raise InputError("Name where responses come from: either --candidates FILE or --model PROVIDER/NAME.")
    inputs = [path.resolve() for path in (request.preferences, request.prompts, request.candidates) if path]
    if request.out.resolve() in inputs:
        raise InputError(f"--out is {str(request.out)!r}, which is one of the inputs; name another file.")
    if request.preferences.resolve() in inputs[1:]:
        raise InputError(f"{str(request.preferences)!r} is private and cannot be public too; name another file.")
    for ending in ("model.npz", "privacy.json", "responses.jsonl"):
        check_writable(request.beside(ending))
    prompts = read_prompts(request.prompts)
    pool = None
    if request.candidates is not None:
        pool = pool_responses(read_pool(request.candidates), prompts, request.candidates)
    records = read_preferences(request.preferences)
    if len(records) < request.settings.least_records:
        raise InputError(too_few(len(records), request.settings))
    encoder = load_encoder(request.encoder)
    if request.sampling is None:
        mixture, how = _fit_once(request, records, encoder, part(progress, 0.0, 0.5))
        return _finish(request, mixture, how, prompts, pool or [], {}, encoder, part(progress, 0.5, 1.0))
    with ResponseFile(request.beside("responses.jsonl"), request.sampling) as file:
        options = {"connections": request.connections, "base_url": request.base_url}
        # A model that does not work shows in the first prompts, before the budget is spent.
        for tried in range(1, min(TRIALS, len(prompts)) + 1):
            generate(file, prompts[:tried], **options)  # type: ignore[arg-type]
            if any(file.responses(prompts[:tried])):
                break
        else:
            reasons = ", ".join(file.faults(prompts[:tried]))
            raise InputError(
                f"The model {request.sampling.model!r} gave no response to the first prompts ({reasons}); nothing was "
                "spent, mend that and run again."
            )
        mixture, how = _fit_once(request, records, encoder, part(progress, 0.0, 0.3))
        generate(file, prompts, progress=part(progress, 0.3, 0.8), **options)  # type: ignore[arg-type]
        responses, faults = file.responses(prompts), file.faults(prompts)
    return _finish(request, mixture, how, prompts, responses, faults, encoder, part(progress, 0.8, 1.0))


def _fit_once(
    request: Request, records: Sequence[Preference], encoder: Encoder, progress: Progress
) -> tuple[RewardMixture, str]:
    """Return the model of an earlier run where there is one, else fit and keep it, and how it came about."""
    path = request.beside("model.npz")
    ledger = Ledger(request.preferences)
    if path.exists() and not request.refit:
        mixture = RewardMixture.load(path)
        _check_same(mixture, request, encoder, path)
        ledger.check(mixture, path)
        progress(1.0, "fitted before")
        return mixture, "The model of an earlier run was used again, so nothing further was spent."
    texts = [text_to_embed(record.prompt, text) for record in records for text in (record.chosen, record.rejected)]
    embeddings = embed_all(encoder, texts, part(progress, 0.0, 0.9))
    mixture = fit_rewards(
        embeddings[0::2],
        embeddings[1::2],
        request.epsilon,
        request.delta,
        settings=request.settings,
        encoder=encoder.name,
        seed=request.seed,
        insecure=request.insecure,
        progress=part(progress, 0.9, 1.0),
    )
    earlier = ledger.spent()
    ledger.enter(mixture)
    mixture.save(path)
    how = f"The model was fitted with epsilon {mixture.privacy.epsilon:.3g}."
    if mixture.privacy.delta * mixture.records >= 1:
        how += (
            f" Delta is {request.delta:g}, not below one over the number of records: a release that showed one record "
            "whole would satisfy it; give a smaller --delta."
        )
    if earlier:
        total = sum(earlier) + mixture.privacy.epsilon
        how += f" With {len(earlier)} earlier fit(s) on this file the records have now spent epsilon {total:.3g}."
    return mixture, how


def _check_same(mixture: RewardMixture, request: Request, encoder: Encoder, path: Path) -> None:
    found = mixture.privacy
    way_out = "name another --out, or give --refit, which spends the budget again"
    if mixture.budget != request.epsilon:
        raise InputError(
            f"{str(path)!r} was fitted with epsilon {mixture.budget:g} and --epsilon is {request.epsilon:g}; {way_out}."
        )
    if found.delta != request.delta:
        raise InputError(
            f"{str(path)!r} was fitted with delta {found.delta:g} and --delta is {request.delta:g}; {way_out}."
        )
    if mixture.encoder != encoder.name:
        raise InputError(f"{str(path)!r} was fitted with the encoder {mixture.encoder}, not {encoder.name}; {way_out}.")
    if mixture.settings != request.settings:
        raise InputError(f"{str(path)!r} was fitted with other settings ({mixture.settings}); {way_out}.")
    if found.secure == request.insecure:
        noise = "secure" if found.secure else "seeded"
        raise InputError(f"{str(path)!r} was fitted with {noise} noise, unlike this request; {way_out}.")


class Ledger:
    """What was spent on a file of records, kept in the user's own cache and never beside the release.

    A hash of private records would let anybody test a guess of them, so no released file holds one.

    Args:
        records: The private file.
    """

    def __init__(self, records: Path) -> None:
        with records.open("rb") as stream:
            self._hash = hashlib.file_digest(stream, "sha256").hexdigest()
        self._folder = cache_directory() / "dpprefsyn"

    def enter(self, mixture: RewardMixture) -> None:
        """Note that a model was fitted to the records."""
        self._folder.mkdir(exist_ok=True)
        privacy = mixture.privacy
        entry = {"records": self._hash, "epsilon": privacy.epsilon, "delta": privacy.delta, "secure": privacy.secure}
        write_secret(self._folder / f"{mixture.name}.json", json.dumps(entry))

    def check(self, mixture: RewardMixture, path: Path) -> None:
        """Raise an InputError where the model is known to come from other records."""
        file = self._folder / f"{mixture.name}.json"
        if file.is_file() and json.loads(file.read_text(encoding="utf-8"))["records"] != self._hash:
            raise InputError(
                f"{str(path)!r} was fitted to other records; name another --out, or give --refit for these records."
            )

    def spent(self) -> list[float]:
        """Return the epsilons of the fits to these records, tests left out."""
        if not self._folder.is_dir():
            return []
        entries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self._folder.glob("*.json"))]
        return [float(entry["epsilon"]) for entry in entries if entry["records"] == self._hash and entry["secure"]]


def _finish(
    request: Request,
    mixture: RewardMixture,
    how: str,
    prompts: Sequence[Prompt],
    responses: Sequence[Sequence[str]],
    faults: dict[str, int],
    encoder: Encoder,
    progress: Progress,
) -> Outcome:
    made = label_responses(
        mixture,
        prompts,
        responses,
        encoder,
        min_margin=request.min_margin,
        keep=request.keep,
        seed=request.draw,
        progress=progress,
    )
    with whole_file(request.out) as stream:
        for record in made.records:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    statement = request.beside("privacy.json")
    with whole_file(statement) as stream:
        json.dump({**mixture.privacy.as_dict(), "text": mixture.privacy.text()}, stream, indent=2)
    files = [request.out, statement, request.beside("model.npz")]
    if request.sampling is not None:
        files.append(request.beside("responses.jsonl"))
    dropped = sum(faults.values())
    summary = f"{len(made.records):,} synthetic preferences from {len(prompts):,} public prompts. {how}"
    if not made.records and made.margins:
        summary += f" No pair has a margin of {made.threshold:g}; the largest is {max(made.margins):.3g}: see --keep."
    if dropped:
        summary += f" {dropped:,} responses did not come and were left out; a further run asks for those that may."
    if not mixture.privacy.secure:
        summary += " The noise came from a seed: this release protects nobody."
    tables = (_clusters(mixture, made), _drops(prompts, made, faults), _statement_table(mixture))
    figures = (margin_picture(made.margins, made.threshold), mixture_picture(mixture))
    if request.report is not None:
        sections: list[Section] = [
            paragraph(summary),
            *figures,
            tables[0],
            tables[1],
            heading("Privacy"),
            tables[2],
            paragraph(
                "Everything on this page was computed from the released model and from public prompts and responses. "
                "Labelling further prompts with the same model costs no privacy; another fit costs its epsilon again.",
                "soft",
            ),
        ]
        files.append(write_report(request.report, "Private preferences, synthesised", sections))
    data = {
        "records": len(made.records),
        "prompts": len(prompts),
        "skipped_prompts": made.skipped,
        "below_threshold": len(made.margins) - len(made.records),
        "threshold": made.threshold,
        "faults": faults,
        "weights": mixture.rewards.weights.tolist(),
        "privacy": mixture.privacy.as_dict(),
    }
    return Outcome(summary, tables, figures, files, data)


def _clusters(mixture: RewardMixture, made: Synthesis) -> Table:
    counts = Counter(record["cluster"] for record in made.records)
    example = {record["cluster"]: record for record in reversed(made.records)}
    rows = [
        [
            cluster + 1,
            float(weight),
            counts.get(cluster, 0),
            _short(example[cluster]["chosen"]) if cluster in example else None,
            _short(example[cluster]["rejected"]) if cluster in example else None,
        ]
        for cluster, weight in enumerate(mixture.rewards.weights)
    ]
    return Table(
        ("cluster", "weight", "pairs", "a chosen response", "the rejected one"), rows, "Tastes that were found"
    )


def _drops(prompts: Sequence[Prompt], made: Synthesis, faults: dict[str, int]) -> Table:
    rows: list[list[object]] = [
        ["prompts", len(prompts)],
        ["prompts with fewer than two different responses", made.skipped],
        [f"pairs with a margin below {made.threshold:.3g}", len(made.margins) - len(made.records)],
        ["pairs written", len(made.records)],
        *([f"responses that did not come: {reason}", count] for reason, count in sorted(faults.items())),
    ]
    return Table(("what", "number"), rows, "From prompts to pairs")


def _statement_table(mixture: RewardMixture) -> Table:
    rows = [line.strip().rstrip(".").split(": ", 1) for line in mixture.privacy.text().splitlines()]
    return Table(("privacy", "what it says"), [row if len(row) == 2 else ["", row[0]] for row in rows])


def _short(value: Prompt) -> str:
    text = value if isinstance(value, str) else value[-1]["content"]
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else flat[: SHOWN - 1] + "…"
