"""The human queue: open claims out, labels in. Labellers see question, answer, claim and debate, and no names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.evaluation.critique_benchmark.games import Tally
from workingpapers.evaluation.critique_benchmark.plan import Plan
from workingpapers.evaluation.critique_benchmark.prompts import redact
from workingpapers.evaluation.critique_benchmark.records import (
    Answer,
    Critique,
    Label,
    Question,
    body,
    claim_of_answer,
    claim_of_critique,
)
from workingpapers.evaluation.critique_benchmark.rules import VERDICTS, ClaimType, side_of
from workingpapers.evaluation.critique_benchmark.store import EventStore
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column, read_table, read_text

if TYPE_CHECKING:
    import pandas as pd

QUEUE_COLUMNS = ("claim_id", "type", "question", "answer", "claim", "debate", "verdicts", "verdict", "labeller")


def open_claims(store: EventStore, plan: Plan, found: Tally) -> pd.DataFrame:
    """Return the claims that wait for a human, one a row, identities redacted; verdict and labeller are empty.

    Args:
        store: Events.
        plan: The run.
        found: What :func:`.games.tally` returned.
    """
    import pandas as pd

    waiting = found.claims[found.claims["by"] == "nobody"].drop_duplicates("claim_id")
    mine = [event for event in store.events("question") if event["run"] == plan.run]
    questions = {event["item"]: Question(**_without_run(event)) for event in mine}
    answers = {
        (event["item"], event["answerer"]): Answer(**_without_run(event))
        for event in store.events("answer")
        if event["run"] == plan.run
    }
    texts: dict[str, str] = {}
    for event in store.events("critique"):
        if event["run"] == plan.run and event["verdict"] != "correct":
            claim = claim_of_critique(Critique(**_without_run(event)))
            texts[claim.id] = claim.text
    for (item, _), answer in answers.items():
        if answer.status == "ill-posed" and item in questions:
            texts[claim_of_answer(answer, questions[item].author).id] = answer.notes
    debates = {event["claim_id"]: event["turns"] for event in store.events("debate") if event["run"] == plan.run}
    names = tuple(who.name for who in plan.participants)
    rows = []
    for row in waiting.to_dict("records"):
        question = questions[row["item"]]
        gate = row["mode"] == "contradictor"
        other = row["critic"] if gate else row["answerer"]
        aliases = {question.author: "Alice", other: "Bob"}
        if row["critic"] not in ("", question.author, other):
            aliases[row["critic"]] = "Carol"
        turns = [
            f"{aliases.get(turn['speaker'], 'another')}: {turn['message']}" for turn in debates.get(row["claim_id"], [])
        ]
        answer_text = question.self_answer if gate else answers[(row["item"], row["answerer"])].text
        rows.append(
            {
                "claim_id": row["claim_id"],
                "type": row["type"],
                "question": redact(question.text, aliases, names),
                "answer": redact(answer_text, aliases, names),
                "claim": redact(texts[row["claim_id"]], aliases, names),
                "debate": redact("\n".join(turns), aliases, names),
                "verdicts": " | ".join(VERDICTS[_claim_type(row["type"])]),
                "verdict": "",
                "labeller": "",
            }
        )
    return pd.DataFrame(rows, columns=list(QUEUE_COLUMNS))


def read_labels(path: Path) -> list[tuple[Label, str]]:
    """Read labels: a table with the columns claim_id, verdict and labeller; rows without a verdict are left aside.

    Args:
        path: The table, such as a queue that was filled in.

    Returns:
        Labels, each with the type of its claim where the table has it.

    Raises:
        InputError: A column is missing, a verdict does not exist, or two labels contradict each other.
    """
    if read_text(path).strip() == ",".join(QUEUE_COLUMNS):  # a queue in which no claim waited
        return []
    table = read_table(path)
    ids, verdicts, labellers = (column(table, name, path) for name in ("claim_id", "verdict", "labeller"))
    types = table["type"] if "type" in table.columns else ids.map(lambda _: "critique")
    labels: dict[str, tuple[Label, str]] = {}
    found = []
    for claim_id, verdict, labeller, kind in zip(ids, verdicts, labellers, types, strict=True):
        if not isinstance(verdict, str) or not verdict.strip():
            continue
        if labeller != labeller or not str(labeller).strip():
            raise InputError(
                f"{str(path)!r} has a verdict on the claim {claim_id} without a labeller; say who labelled."
            )
        label = Label(str(claim_id), str(labeller), verdict.strip())
        side_of(_claim_type(str(kind)), label.verdict)
        before = labels.setdefault(label.claim_id, (label, str(kind)))[0]
        if before.verdict != label.verdict:
            raise InputError(
                f"{str(path)!r} labels the claim {label.claim_id} both {before.verdict!r} ({before.labeller}) and "
                f"{label.verdict!r} ({label.labeller}); settle on one."
            )
        found.append((label, str(kind)))
    return found


def add_labels(store: EventStore, labels: list[tuple[Label, str]]) -> None:
    """Append labels to the store.

    Args:
        store: The store.
        labels: What :func:`read_labels` returned.

    Raises:
        InputError: A label contradicts one that is in the store.
    """
    known = {event["claim_id"]: event for event in store.events("label")}
    for label, _ in labels:
        before = known.get(label.claim_id)
        if before and before["verdict"] != label.verdict:
            raise InputError(
                f"The claim {label.claim_id} was labelled {before['verdict']!r} by {before['labeller']!r} and is now "
                f"labelled {label.verdict!r}; labels are never changed."
            )
    for label, _ in labels:
        store.append("label", body(label))


def _claim_type(text: str) -> ClaimType:
    if text == "critique":
        return "critique"
    if text == "illposed":
        return "illposed"
    raise InputError(f"{text!r} is not a type of claim; use critique or illposed.")


def _without_run(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "run"}
