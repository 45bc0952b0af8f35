"""What the command does: read, check, answer prompt by prompt with each answer kept, report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.conversations import plain_text, read_prompts
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.figures import PALETTE, canvas, to_svg
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.language import load_model
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.foundations.program import load_function
from workingpapers.foundations.progress import Progress
from workingpapers.foundations.report import Section, paragraph, write_report
from workingpapers.posttraining.ets.causal import CausalChain
from workingpapers.posttraining.ets.rewards import Reward, SelfConsistency, Verifier
from workingpapers.posttraining.ets.rivals import best_of, draws, majority_vote
from workingpapers.posttraining.ets.sampler import EnergyGuidedSampler

SHOWN = 80


@dataclass(frozen=True)
class Request:
    """What the command was asked for; the fields are the command's parameters."""

    prompts: Path
    out: Path
    model: str
    program: Path | None
    function: str
    answer: str
    method: str
    candidates: int
    rollouts: int
    block: int
    tradeoff: float
    proposal: str | None
    temperature: float
    top_p: float
    max_tokens: int
    batch: int
    seed: int
    report: Path | None


def run_request(request: Request, progress: Progress) -> Outcome:
    """Do what the command was asked for.

    Args:
        request: What that is.
        progress: Called after each prompt.

    Raises:
        InputError: Something of it cannot be used, before any long work.
    """
    records = read_prompts(request.prompts)
    extract = extractor(request.answer)
    reward: Reward = SelfConsistency(extract)
    if request.program is not None:
        reward = Verifier(load_function(request.program, request.function))
    done = read_answers(request.out, records)
    model, tokenizer = load_model(request.model)
    options: dict[str, Any] = {
        "longest": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "batch": request.batch,
    }
    chain = CausalChain(model, tokenizer, **options)
    proposal = None if request.proposal is None else CausalChain(*load_model(request.proposal), **options)
    asked = [as_tokens(record, tokenizer) for record in records]
    chain.start(asked, None)  # type: ignore[arg-type]  # refuses prompts that are too long, before any work
    answer = answerer(request, chain, proposal, reward, extract, [plain_text(record) for record in records])
    rows = list(done)
    for number in range(len(done), len(records)):
        found = answer(asked[number], number)
        rows.append({"prompt": records[number], **found})
        append(request.out, rows, fresh=number == len(done))
        progress((number + 1) / len(records), f"{number + 1:,} of {len(records):,} prompts")
    return _outcome(request, rows, len(done))


def answerer(
    request: Request,
    chain: CausalChain,
    proposal: CausalChain | None,
    reward: Reward,
    extract: Callable[[str], str | None],
    texts: Sequence[str],
) -> Callable[[list[int], int], dict[str, Any]]:
    """Return a function of a prompt's tokens and number that answers it by the method asked for."""

    def judged(number: int) -> Reward:
        def one(prompts: Sequence[Any], completions: Sequence[Any], groups: Any) -> Any:
            return reward([texts[number]] * len(completions), completions, groups)

        return one

    def answer(tokens: list[int], number: int) -> dict[str, Any]:
        seed = request.seed + number
        if request.method == "plain":
            ended, spent = draws(chain, [tokens], 1, seed)
            return {"completion": chain.read([tokens], ended)[0], "tokens": spent}
        if request.method == "best":
            found, spent = best_of(chain, judged(number), [tokens], request.candidates, seed)
            return {"completion": found[0], "tokens": spent}
        if request.method == "vote":
            voted, spent = majority_vote(chain, extract, [tokens], request.candidates, seed)
            return {"completion": voted[0], "tokens": spent}
        sampler = EnergyGuidedSampler(
            chain,
            judged(number),
            temperature=request.tradeoff,
            candidates=request.candidates,
            rollouts=request.rollouts,
            block=request.block,
            proposal=proposal,
        )
        output = sampler.sample([tokens], seeds=seed)
        return {
            "completion": output.completions[0],
            "tokens": output.tokens.total,
            "effective": [round(step.effective, 3) for step in output.trace[0]],
        }

    return answer


def read_answers(path: Path, records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the answers that an earlier run left.

    Raises:
        InputError: The file is of another kind, or its prompts are others.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    rows = []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")  # a killed run leaves half a line
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            row["completion"], row["tokens"]
            same = number <= len(records) and row["prompt"] == records[number - 1]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{str(path)!r} holds no answers of this command (line {number}); name another.") from None
        if not same:
            raise InputError(f"{str(path)!r} holds answers to other prompts (line {number}); name another file.")
        rows.append(row)
    return rows


def append(path: Path, rows: Sequence[dict[str, Any]], *, fresh: bool) -> None:
    """Add the last row to the file; the first time the file is written whole, so that half a line never stays."""
    if fresh:
        with whole_file(path) as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")


def extractor(pattern: str) -> Callable[[str], str | None]:
    """Return a function that gives the last match of a regular expression, without commas.

    Raises:
        InputError: The expression is none.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(f"--answer is {pattern!r}, which is no regular expression ({error}).") from None

    def extract(text: str) -> str | None:
        found = [match.group(0) for match in compiled.finditer(text)]
        return found[-1].replace(",", "") if found else None

    return extract


def as_tokens(record: Any, tokenizer: Any) -> list[int]:
    """Return a prompt's tokens: messages, and texts for a model that chats, by its chat template."""
    if getattr(tokenizer, "chat_template", None):
        turns = record if isinstance(record, list) else [{"role": "user", "content": record}]
        found = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=True, return_dict=True)
        return list(found["input_ids"])
    return list(tokenizer(plain_text(record))["input_ids"])


def _outcome(request: Request, rows: Sequence[dict[str, Any]], before: int) -> Outcome:
    spent = sum(int(row["tokens"]) for row in rows)
    effective = [value for row in rows for value in row.get("effective", [])]
    summary = f"{len(rows):,} answers for {spent:,} tokens ({spent / len(rows):,.0f} a prompt)."
    if before:
        summary += f" {before:,} of them are of an earlier run."
    if effective:
        summary += f" On average {np.mean(effective):.2g} of {request.candidates} candidates counted in a choice."
    shown = [[_short(plain_text(row["prompt"])), _short(str(row["completion"])), row["tokens"]] for row in rows[:10]]
    table = Table(("prompt", "answer", "tokens"), shown, "The first answers")
    figures = [_effective_picture(effective, request.candidates)] if effective else []
    files = [request.out]
    if request.report is not None:
        sections: list[Section] = [paragraph(summary), *figures, table]
        files.append(write_report(request.report, "Answers by energy-guided sampling", sections))
    data = {
        "answers": len(rows),
        "tokens": spent,
        "earlier": before,
        "effective": float(np.mean(effective)) if effective else None,
    }
    return Outcome(summary, (table,), figures, files, data)


def _effective_picture(effective: Sequence[float], candidates: int) -> Figure:
    with canvas(6.0, 2.8) as figure:
        axes = figure.axes[0]
        axes.hist(effective, bins=np.linspace(1, max(candidates, 1.01), 21).tolist(), color=PALETTE[0])
        axes.set(xlabel=f"effective candidates of {candidates}", ylabel="choices")
        return Figure(to_svg(figure), "At 1 a single candidate took all: more candidates or a larger --tradeoff help.")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else flat[: SHOWN - 1] + "…"
