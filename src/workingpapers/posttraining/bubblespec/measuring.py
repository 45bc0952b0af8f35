"""What the command does: read, check, write chunk by chunk with each chunk kept, time passes, simulate, report."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.conversations import Prompt, read_prompts
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.language import load_model
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, part
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.posttraining.bubblespec.cluster import (
    AcceptanceModel,
    ClusterSpec,
    LengthModel,
    Simulated,
    StepTime,
    calibrate,
    simulate,
)
from workingpapers.posttraining.bubblespec.decoding import Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import Draft
from workingpapers.posttraining.bubblespec.noise import Key
from workingpapers.posttraining.bubblespec.pictures import rank_picture, time_picture
from workingpapers.posttraining.bubblespec.verify import Sampling

STEPS = 10
CUT = 0.1  # share of completions at the limit from which on lengths say little
RANKS = (1, 2, 4, 8, 16, 32)
Row = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What the command was asked for; the fields are the command's parameters."""

    prompts: Path
    out: Path
    model: str
    next: str | None
    change: float
    samples: int
    max_tokens: int
    temperature: float
    top_p: float
    ahead: int
    independent: bool
    ranks: int
    batch: int
    seed: int
    report: Path | None


def measure(wanted: Wanted, progress: Progress) -> Outcome:
    """Do what the command was asked for.

    Args:
        wanted: What that is.
        progress: Told of prompts done.

    Raises:
        InputError: Something of it cannot be used, before any long work.
    """
    records = read_prompts(wanted.prompts)
    facts = {name: getattr(wanted, name) for name in ("model", "next", "change", "samples", "max_tokens", "temperature",
             "top_p", "ahead", "independent", "seed")}  # fmt: skip
    rows = read_done(wanted.out, records, facts)
    before, after, tokenizer = _models(wanted, part(progress, 0, 0.1))
    asked = [as_tokens(record, tokenizer) for record in records]
    _check_lengths(asked, after, wanted)
    for start in range(len(rows), len(records), wanted.batch):
        chosen = range(start, min(start + wanted.batch, len(records)))
        found = _chunk(before, after, tokenizer, [asked[number] for number in chosen], start, wanted)
        rows += [
            {"prompt": records[number], **row, "settings": facts} for number, row in zip(chosen, found, strict=True)
        ]
        with whole_file(wanted.out) as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        progress(0.1 + 0.7 * len(rows) / len(records), f"{len(rows):,} of {len(records):,} prompts")
    timed = calibrate(after)
    progress(0.9, "passes timed")
    return _outcome(wanted, rows, timed)


def read_done(path: Path, records: Sequence[Prompt], facts: dict[str, Any]) -> list[Row]:
    """Return the rows that an earlier run with the same options left.

    Raises:
        InputError: The file is of another kind, or of another run.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        try:
            row = json.loads(line)
            same = number < len(records) and row["prompt"] == records[number] and row["settings"] == facts
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{str(path)!r} holds nothing of this command (line {number + 1}); name another file."
            ) from None
        if not same:
            raise InputError(f"{str(path)!r} holds a run with other prompts or options; name another file.")
        rows.append(row)
    return rows


def as_tokens(prompt: Prompt, tokenizer: Any) -> list[int]:
    """Return the token numbers of a prompt.

    Raises:
        InputError: Messages are given and the tokenizer has no chat template.
    """
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    if not tokenizer.chat_template:
        raise InputError("The prompts are lists of messages and the tokenizer has no chat template; give texts.")
    return list(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))


def _models(wanted: Wanted, progress: Progress) -> tuple[Any, Any, Any]:
    from workingpapers.posttraining.bubblespec.experiments import perturb

    if wanted.model == "tiny":
        from workingpapers.foundations.tinylm import ready
        from workingpapers.posttraining.bubblespec.loop import Run

        before, tokenizer = ready(Run(base_steps=600).recipe, progress)
        before = before.eval()
    else:
        progress(0.0, f"loading {wanted.model}")
        before, tokenizer = load_model(wanted.model)
    if wanted.next is None:
        after = copy.deepcopy(before)
        perturb(after, wanted.change, wanted.seed)
    else:
        after, _ = load_model(wanted.next)
        if after.config.vocab_size != before.config.vocab_size:
            raise InputError(
                f"--next {wanted.next!r} knows {after.config.vocab_size} tokens and {wanted.model!r} "
                f"{before.config.vocab_size}; give two checkpoints of one model."
            )
    return before, after, tokenizer


def _check_lengths(asked: list[list[int]], model: Any, wanted: Wanted) -> None:
    longest = getattr(model.config, "max_position_embeddings", None)
    for number, tokens in enumerate(asked, 1):
        if not tokens:
            raise InputError(f"Prompt {number} has no token; leave it out.")
        if longest and len(tokens) + wanted.max_tokens > longest:
            raise InputError(
                f"Prompt {number} has {len(tokens)} tokens; with --max-tokens {wanted.max_tokens} that is more than "
                f"the {longest} that the model reads."
            )


def _chunk(before: Any, after: Any, tokenizer: Any, asked: list[list[int]], first: int, wanted: Wanted) -> list[Row]:
    options: dict[str, Any] = {"most": wanted.max_tokens, "sampling": Sampling(wanted.temperature, 0, wanted.top_p)}
    plain = [
        Request(tuple(tokens), Key(wanted.seed, first + number, 0, sample))
        for number, tokens in enumerate(asked)
        for sample in range(wanted.samples)
    ]
    keyed = [Request(one.prompt, one.key.aside() if wanted.independent else one.key) for one in plain]
    drafts = [Draft(one.tokens) for one in lossless_decode(before, keyed, **options).written]
    without = lossless_decode(after, plain, **options)
    drafted = []
    for number, one in enumerate(plain):
        group = range(number - number % wanted.samples, number - number % wanted.samples + wanted.samples)
        pool = (drafts[number], *(drafts[other] for other in group if other != number))
        drafted.append(Request(one.prompt, one.key, pool))
    found = lossless_decode(after, drafted, ahead=wanted.ahead, **options)
    rows = []
    for number in range(len(asked)):
        own = slice(number * wanted.samples, (number + 1) * wanted.samples)
        texts, same = found.written[own], without.written[own]
        rows.append({
            "completions": [tokenizer.decode(one.tokens, skip_special_tokens=True) for one in texts],
            "lengths": [len(one.tokens) for one in texts],
            "passes": [one.passes for one in texts],
            "plain_passes": [one.passes for one in same],
            "drafted": sum(one.drafted for one in texts),
            "accepted": sum(one.accepted for one in texts),
            "different": sum(one.tokens != two.tokens for one, two in zip(texts, same, strict=True)),
            "seconds": [found.seconds / len(asked), without.seconds / len(asked)],
        })  # fmt: skip
    return rows


def length_model(lengths: np.ndarray, longest: int) -> LengthModel:
    """Return a log-normal model of lengths, with the variance between prompts apart from that within.

    Args:
        lengths: Shape (prompts, samples), at least two samples.
        longest: Limit.
    """
    logs = np.log(lengths)
    within = float(logs.var(axis=1, ddof=1).mean())
    between = max(0.0, float(logs.mean(1).var(ddof=1)) - within / lengths.shape[1]) if len(logs) > 1 else 0.0
    return LengthModel(float(np.exp(logs.mean())), longest, between**0.5, within**0.5)


def _outcome(wanted: Wanted, rows: list[Row], timed: StepTime) -> Outcome:
    tokens, passes, plain = (sum(sum(row[name]) for row in rows) for name in ("lengths", "passes", "plain_passes"))
    drafted, accepted, different = (sum(row[name] for row in rows) for name in ("drafted", "accepted", "different"))
    seconds, plain_seconds = (sum(row["seconds"][place] for row in rows) for place in (0, 1))
    stand = accepted / drafted if drafted else 0.0
    lengths = length_model(np.array([row["lengths"] for row in rows]), wanted.max_tokens)
    # A run of k drafted tokens stands with stand^k here, so that a share of tokens is taken for the chance of each.
    acceptance = AcceptanceModel(stand, 0.0 if stand == 0 else 0.3)
    gains: dict[int, Simulated] = {}
    for ranks in sorted({*RANKS, wanted.ranks}):
        spec = ClusterSpec(ranks=ranks, samples=wanted.samples, ahead=wanted.ahead, saturation=timed.saturation,
                           step_time=timed.step_time)  # fmt: skip
        gains[ranks] = simulate(spec, lengths, acceptance, steps=STEPS, seed=wanted.seed)
    gain = gains[wanted.ranks]
    written = sum(len(row["lengths"]) for row in rows)
    summary = (
        f"Measured: {stand:.0%} of the drafted tokens stood, and {tokens:,} tokens took {passes:,} passes "
        f"in place of {plain:,}; {different:,} of {written:,} completions differ from those written without drafts. "
        f"Simulated: {wanted.ranks} ranks with these lengths would be idle {gain.idle:.0%} of the time without drafts "
        f"and {gain.speedup:.2f} times as fast with them."
    )
    cut = sum(length >= wanted.max_tokens for row in rows for length in row["lengths"]) / written
    if cut > CUT:
        summary += (
            f" {cut:.0%} of the completions were cut at --max-tokens {wanted.max_tokens}, which hides how lengths "
            "differ; raise it for a projection that can be trusted."
        )
    measured = Table(
        ["measured", "value"],
        [["prompts", len(rows)], ["tokens written", tokens], ["passes with drafts", passes],
         ["passes without", plain], ["draft tokens checked", drafted], ["share that stood", stand],
         ["completions that differ", different], ["seconds with drafts", seconds], ["seconds without", plain_seconds],
         ["seconds of a small pass", timed.step_time], ["tokens up to which a pass takes no longer", timed.saturation]],
        title="Measured on this machine",
    )  # fmt: skip
    simulated = Table(
        ["ranks", "idle without drafts", "times as fast", "passes", "draft tokens for each token"],
        [
            [ranks, one.idle, one.speedup, one.iterations / one.plain_iterations, one.extra]
            for ranks, one in gains.items()
        ],
        title="Simulated, not measured",
    )
    figures = [time_picture(timed), rank_picture(gains)]
    data = {
        "acceptance": stand, "tokens": tokens, "passes": passes, "plain_passes": plain, "different": different,
        "seconds": seconds, "plain_seconds": plain_seconds, "step_time": timed.step_time,
        "saturation": timed.saturation, "simulated_speedup": gain.speedup, "simulated_idle": gain.idle,
        "median_length": lengths.median, "prompt_spread": lengths.prompt_spread, "sample_spread": lengths.sample_spread,
    }  # fmt: skip
    files = [wanted.out]
    if wanted.report is not None:
        sections: list[Section] = [
            paragraph(summary), heading("Measured"), measured, figures[0], heading("Simulated"),
            paragraph("Lengths are drawn from a log-normal law fitted to those above, drafts stand with the share "
                      "above, a sequence that left its draft finds a way back with probability 0.3 an iteration, and "
                      "an iteration takes the fitted time."), figures[1], simulated,
        ]  # fmt: skip
        files.append(write_report(wanted.report, "Drafts from idle windows", sections))
    return Outcome(summary=summary, tables=[measured, simulated], figures=figures, files=files, data=data)
