"""``papers run critique_benchmark``: rate a table of games, or make one by letting models question each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

Scale = Annotated[float, Between(0, 100)]


def run(
    games: InputFile | None = None,
    *,
    topics: InputFile | None = None,
    models: tuple[str, ...] = (),
    judges: tuple[str, ...] = (),
    base_url: str | None = None,
    store: OutputFile | None = None,
    dry_run: bool = False,
    limit: Annotated[int, Between(1)] | None = None,
    budget: Annotated[int, Between(0)] | None = None,
    rubrics: InputFile | None = None,
    labels: InputFile | None = None,
    queue: OutputFile | None = None,
    attempts: Annotated[int, Between(1, 100)] = 5,
    check_rounds: Annotated[int, Between(0, 20)] = 5,
    debate_rounds: Annotated[int, Between(0, 20)] = 5,
    panel: Literal["unanimous", "majority"] = "unanimous",
    mixed: Literal["claimant", "nobody"] = "claimant",
    critics: Literal["author", "all"] = "author",
    temperature: Annotated[float, Between(0, 2)] | None = None,
    max_tokens: Annotated[int, Between(16)] = 4096,
    connections: Annotated[int, Between(1, 1000)] = 8,
    retries: Annotated[int, Between(0, 100)] = 4,
    timeout: Annotated[float, Between(1)] = 600.0,
    answerer_scale: Annotated[float, Between(0, 100, open_low=True)] | None = None,
    author_scale: Scale | None = None,
    item_scale: Scale | None = None,
    own_items: Literal["refuse", "drop"] = "refuse",
    draws: Annotated[int, Between(0, 100_000)] = 200,
    seed: int = 0,
    out: OutputFile | None = None,
    games_out: OutputFile | None = None,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Rate models for answering and for asking, from a table of games or by running the whole protocol.

    Args:
        games: Table with the columns answerer, author, item, outcome (1 the answerer won, 0 it lost) and, where wanted,
            weight. Leave it out to run the protocol.
        topics: Text file, one topic a line; every model writes one question for each.
        models: Models that write, answer, attack and judge, by inspect-ai's names (openai/gpt-4o, ollama/llama3.1,
            openai-api/LAB/MODEL for any OpenAI-compatible endpoint); scripted/SKILL is a scripted model.
        judges: Further models that only judge.
        base_url: Address of the endpoint of all models.
        store: Event store, made where it does not exist; a run that was stopped goes on from it. By default one in the
            data folder.
        dry_run: Only say what the run would cost.
        limit: Number of topics to use, from the top.
        budget: Most tokens of new calls; the run stops there and can be resumed.
        rubrics: TOML file with texts for question, answer, critique, debate, judgment.
        labels: Table with the columns claim_id, verdict, labeller, such as a queue that was filled in.
        queue: CSV for the claims that wait for a human.
        attempts: Most questions that an author may write for one topic.
        check_rounds: Most rounds of self-check of a question or an answer.
        debate_rounds: Most rounds of a debate.
        panel: Whether judges must be unanimous, or a majority decides.
        mixed: Whom the verdict "mixed" favours.
        critics: Who attacks an answer, its author alone or all models.
        temperature: Sampling temperature; the endpoint's own by default.
        max_tokens: Most tokens of one reply.
        connections: Most calls at a time to one model.
        retries: Times that a failed call is made again.
        timeout: Most seconds for one call.
        answerer_scale: Prior standard deviation of answering strength in log-odds; from the data by default.
        author_scale: Prior standard deviation of benchmarking strength; from the data by default, 0 removes the level.
        item_scale: Prior standard deviation of item effects; from the data by default, 0 removes the level.
        own_items: What to do with answers to an author's own items, an error or leave them out.
        draws: Resamples of items behind the chances of being first; 0 for none.
        seed: Seed of the resamples, and given to the endpoints.
        out: CSV for the ratings.
        games_out: CSV for the games of the protocol.
        report: HTML report with a picture of both ratings.
    """
    from workingpapers.evaluation.critique_benchmark.running import Output, Rate, rate_table, run_protocol

    rate = Rate(answerer_scale, author_scale, item_scale, own_items, draws, seed)
    output = Output(out, games_out, queue, report)
    if (games is None) == (topics is None):
        raise InputError("Give either a table of games, or --topics with --models to run the protocol.")
    if games is not None:
        if models or judges or dry_run or labels or queue or games_out:
            raise InputError("A table of games is rated as it is; leave out the options of the protocol.")
        return rate_table(games, rate, output, progress)
    assert isinstance(topics, Path)
    from workingpapers.evaluation.critique_benchmark.caller import Effort
    from workingpapers.evaluation.critique_benchmark.plan import Settings
    from workingpapers.evaluation.critique_benchmark.running import Cast, make_plan

    settings = Settings(
        check_rounds=check_rounds,
        attempts=attempts,
        debate_rounds=debate_rounds,
        panel=panel,
        mixed=mixed,
        critics=critics,
        max_tokens=max_tokens,
        seed=seed,
    )
    cast = Cast(models, judges, base_url, temperature, timeout, connections, seed)
    plan = make_plan(topics, limit, cast, rubrics, settings, asked=not dry_run)
    effort = Effort(budget, retries, seconds=timeout, connections=connections)
    return run_protocol(plan, effort, store, labels, dry_run, rate, output, progress)
