"""What the command does, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workingpapers.evaluation.critique_benchmark.caller import Effort
from workingpapers.evaluation.critique_benchmark.games import Tally, tally
from workingpapers.evaluation.critique_benchmark.people import add_labels, open_claims, read_labels
from workingpapers.evaluation.critique_benchmark.plan import Plan, Settings, estimate
from workingpapers.evaluation.critique_benchmark.prompts import Rubrics, read_rubrics
from workingpapers.evaluation.critique_benchmark.protocol import Benchmark, Spent
from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT, Scale
from workingpapers.evaluation.critique_benchmark.scripted import ScriptedModel, Skills
from workingpapers.evaluation.critique_benchmark.speakers import ROLES, InspectSpeaker, Participant, Speaker
from workingpapers.evaluation.critique_benchmark.store import EventStore
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import data_directory, read_table, read_text, whole_file
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, paragraph, write_report

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Critique-resilient benchmark"
READING = (
    "Strengths are log-odds: the answerer of strength beta stands on an item of difficulty d with probability "
    "1 / (1 + exp(d - beta)). Intervals are 95 % Laplace intervals; only differences of Elo values have a meaning."
)


@dataclass(frozen=True)
class Rate:
    """How games are rated; a scale of None is chosen by the data."""

    answerer_scale: float | None
    author_scale: float | None
    item_scale: float | None
    own_items: Literal["refuse", "drop"]
    draws: int
    seed: int

    def model(self) -> ItemizedBT:
        """Return the estimator."""

        def auto(scale: float | None) -> Scale:
            return "auto" if scale is None else scale

        scales = auto(self.answerer_scale), auto(self.author_scale), auto(self.item_scale)
        return ItemizedBT(*scales, own_items=self.own_items)


@dataclass(frozen=True)
class Output:
    """Files to write."""

    ratings: Path | None
    games: Path | None
    queue: Path | None
    report: Path | None


@dataclass(frozen=True)
class Cast:
    """Models by name, and how they are reached."""

    models: tuple[str, ...]
    judges: tuple[str, ...]
    base_url: str | None
    temperature: float | None
    timeout: float
    connections: int
    seed: int


def rate_table(path: Path, rate: Rate, output: Output, progress: Progress) -> Outcome:
    """Rate a table of games."""
    model = rate.model()
    frame = read_table(path)
    progress(0.1, "fitting")
    model.fit(frame)
    table, figure, ratings = _rated(model, rate, part(progress, 0.3, 0.9))
    summary = _sentence(model)
    files = _write(output, ratings, None, None)
    if output.report:
        sections: list[Section] = [paragraph(summary), figure, table, paragraph(READING, "soft"), *_first(ratings)]
        sections.append(_hardest(model))
        files.append(write_report(output.report, TITLE, sections))
    progress(1.0)
    data = {"ratings": _records(ratings), "scales": _scales(model), "games": model.games_.games}
    return Outcome(summary, [table], [figure], files, data)


def make_plan(
    topics: Path, limit: int | None, cast: Cast, rubrics: Path | None, settings: Settings, asked: bool
) -> Plan:
    """Read topics and rubrics and find the models; without `asked` no model is looked for."""
    lines = [line.strip() for line in read_text(topics).splitlines()]
    subjects = tuple(line for line in lines if line and not line.startswith("#"))[:limit]
    if not subjects:
        raise InputError(f"{str(topics)!r} lists no topics; write one a line.")
    if not cast.models:
        raise InputError("There are no models; name three or more with --models.")
    texts = read_rubrics(rubrics) if rubrics else Rubrics()
    names = [*cast.models, *cast.judges]
    nobody = ScriptedModel("", Skills())
    # Names and numbers are checked before any model is looked for.
    Plan(tuple(_participant(name, nobody, cast) for name in names), subjects, settings, texts)
    speakers = [_speaker(name, cast) if asked else nobody for name in names]
    cast_list = tuple(_participant(name, speaker, cast) for name, speaker in zip(names, speakers, strict=True))
    return Plan(cast_list, subjects, settings, texts)


def run_protocol(
    plan: Plan,
    effort: Effort,
    path: Path | None,
    labels: Path | None,
    dry_run: bool,
    rate: Rate,
    output: Output,
    progress: Progress,
) -> Outcome:
    """Run the protocol as far as budget and endpoints allow, and rate what came out."""
    model = rate.model()
    costs = estimate(plan)
    cost_table = Table(
        ("stage", "expected calls", "at most", "expected tokens"),
        [(cost.stage, cost.expected, cost.most, cost.tokens) for cost in costs],
        f"Estimated cost of {len(plan.topics)} topics and {len(plan.participants)} models",
    )
    calls, tokens = sum(cost.expected for cost in costs), sum(cost.tokens for cost in costs)
    expected = f"about {calls:,} calls and {tokens / 1e6:,.2g} million tokens"
    if dry_run:
        return Outcome(f"The run would take {expected}; nothing was asked.", [cost_table], data={"calls": calls})
    found_labels = read_labels(labels) if labels else []
    if path is None:
        folder = data_directory() / "critique_benchmark"
        folder.mkdir(exist_ok=True)
        path = folder / "events.jsonl"
    progress(0.0, f"expecting {expected}")
    with EventStore(path) as store:
        add_labels(store, found_labels)
        spent = Benchmark(plan, store, effort, part(progress, 0.0, 0.9)).run()
        found = tally(store, plan)
        waiting = open_claims(store, plan, found)
    drops = _drops(found)
    files = [path]
    tables = [cost_table, _questions(found), drops]
    summary = _account(spent, found, waiting)
    if found.games["answerer"].nunique() < 2:
        files += _write(output, None, found.games, waiting)
        return Outcome(f"{summary} There is nothing to rate yet.", tables, files=files, data={"games": 0})
    model.fit(found.games)
    table, figure, ratings = _rated(model, rate, part(progress, 0.9, 1.0))
    summary = f"{_sentence(model)} {summary}"
    files += _write(output, ratings, found.games, waiting)
    if output.report:
        sections: list[Section] = [paragraph(summary), figure, table, paragraph(READING, "soft"), *_first(ratings)]
        sections += [*tables, _hardest(model, dict(zip(found.games["item"], found.games["topic"], strict=True)))]
        files.append(write_report(output.report, TITLE, sections))
    data = {
        "ratings": _records(ratings),
        "scales": _scales(model),
        "games": len(found.games),
        "dropped": len(found.drops),
        "open_claims": len(waiting),
        "calls": spent.calls,
        "reused": spent.reused,
        "tokens": spent.tokens,
        "finished": spent.finished,
    }
    return Outcome(summary, [table, *tables], [figure], files, data)


def _speaker(name: str, cast: Cast) -> Speaker:
    match = re.fullmatch(r"scripted/(-?\d+(?:\.\d+)?)", name)
    if match:
        return ScriptedModel(name, Skills(solve=float(match.group(1)), level=-0.5, attack=0.9), cast.seed)
    return InspectSpeaker(name, cast.base_url, cast.timeout, cast.connections)


def _participant(name: str, speaker: Speaker, cast: Cast) -> Participant:
    roles = ROLES if name in cast.models else frozenset({"judge"})
    extra = {"base_url": cast.base_url} if cast.base_url else {}
    return Participant(name, speaker, roles, cast.temperature, extra)


def _rated(model: ItemizedBT, rate: Rate, progress: Progress) -> tuple[Table, Figure, pd.DataFrame]:
    from workingpapers.evaluation.critique_benchmark.pictures import ratings_picture

    ratings = model.ratings_.copy()
    progress(0.0, "resampling items")
    for skill in ("beta", "alpha"):
        ratings[f"{skill}_low"] = ratings[skill] - 1.96 * ratings[f"{skill}_se"]
        ratings[f"{skill}_high"] = ratings[skill] + 1.96 * ratings[f"{skill}_se"]
    if rate.draws:
        first = model.bootstrap(rate.draws, random_state=rate.seed).intervals
        ratings = ratings.merge(first[["model", "best_answerer", "best_author"]], on="model")
    heads = ("model", "answering", "95 %", "Elo", "benchmarking", "95 %", "Elo")
    rows = [
        (str(row["model"]), *_skill(row, "beta", "elo_answer"), *_skill(row, "alpha", "elo_author"))
        for row in ratings.to_dict("records")
    ]
    return Table(heads, rows, "Ratings in log-odds and on the Elo scale"), ratings_picture(ratings), ratings


def _skill(row: Mapping[Any, Any], skill: str, scale: str) -> tuple[float | None, str, int | None]:
    if row[skill] != row[skill]:
        return None, "", None
    low, high = row[f"{skill}_low"], row[f"{skill}_high"]
    return round(float(row[skill]), 2) + 0.0, f"{low:.2f} to {high:.2f}".replace("-", "−"), round(float(row[scale]))


def _first(ratings: pd.DataFrame) -> list[Table]:
    """Return the chances of being first, where items were resampled."""
    if "best_answerer" not in ratings:
        return []
    chosen = ["model", "best_answerer", "best_author"]
    rows = [[_plain(value) for value in row] for row in ratings[chosen].itertuples(index=False)]
    return [
        Table(("model", "in answering", "in benchmarking"), rows, "Share of resamples of items in which each is first")
    ]


def _sentence(model: ItemizedBT) -> str:
    ratings = model.ratings_
    best = ratings.dropna(subset=["beta"]).iloc[0]
    text = f"{model.games_.games:,} games on {len(model.games_.items):,} items: {best['model']!r} answers best"
    authors = ratings.dropna(subset=["alpha"])
    if len(authors):
        text += f", {authors.sort_values('alpha')['model'].iloc[-1]!r} writes the hardest sound items"
    text += "."
    groups = int(model.components_.max()) + 1
    if groups > 1:
        text += f" The answerers fall into {groups} groups without common authors; do not compare across groups."
    return text


def _account(spent: Spent, found: Tally, waiting: pd.DataFrame) -> str:
    total = len(found.games) + len(found.drops)
    text = (
        f"{len(found.games):,} of {total:,} games were decided, {len(found.drops):,} dropped; {len(waiting):,} "
        f"claims wait for a human. {spent.calls:,} new calls took {spent.tokens:,} tokens; {spent.reused:,} replies "
        "came from the store."
    )
    return text if spent.finished else f"{text} The budget ended the run; run it again to go on."


def _drops(found: Tally) -> Table:
    counted = found.drop_counts().sort_values(["author", "answerer", "reason"])
    rows = [tuple(row) for row in counted.itertuples(index=False)]
    note = "Dropped games are no ties: they are left out, and who loses them is not a matter of chance."
    return Table(("author", "answerer", "reason", "games"), rows, "Dropped games", note if rows else "None.")


def _questions(found: Tally) -> Table:
    rows = []
    for author, group in found.questions.groupby("author"):
        fates = group["fate"].value_counts()
        names = ("accepted", "refuted", "ill-posed", "failed", "gate incomplete")
        rows.append((str(author), len(group), *(int(fates.get(name, 0)) for name in names)))
    columns = ("author", "questions written", "accepted", "refuted at the gate", "ill-posed", "given up", "unfinished")
    return Table(columns, rows, "Questions")


def _hardest(model: ItemizedBT, topics: Mapping[str, str] | None = None) -> Table:
    items = model.items_.sort_values(["difficulty", "item"], ascending=[False, True]).head(10)
    columns = ["item", "author", "difficulty", "difficulty_se", "games"]
    rows = [[_plain(value) for value in row] for row in items[columns].itertuples(index=False)]
    if topics:
        rows = [[topics[str(row[0])], *row[1:]] for row in rows]
    head = "topic" if topics else "item"
    return Table((head, "author", "difficulty", "standard error", "games"), rows, "Hardest items")


def _write(
    output: Output, ratings: pd.DataFrame | None, games: pd.DataFrame | None, waiting: pd.DataFrame | None
) -> list[Path]:
    files = []
    for path, frame in ((output.ratings, ratings), (output.games, games), (output.queue, waiting)):
        if path is not None and frame is not None:
            with whole_file(path, newline="") as stream:
                frame.to_csv(stream, index=False)
            files.append(path)
    return files


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _scales(model: ItemizedBT) -> dict[str, float]:
    return {"answerer": model.scales_.answerer, "author": model.scales_.author, "item": model.scales_.item}


def _plain(value: Any) -> Any:
    """Return a number or text of JSON; NaN becomes None."""
    if isinstance(value, str):
        return value
    number = float(value)
    return None if number != number else number


__all__: Sequence[str] = ("Cast", "Output", "Rate", "make_plan", "rate_table", "run_protocol")
