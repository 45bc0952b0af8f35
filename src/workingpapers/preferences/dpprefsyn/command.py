"""``papers run dpprefsyn``: private preferences in, synthetic preferences out, with one privacy guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile


def run(
    preferences: InputFile,
    *,
    prompts: InputFile,
    epsilon: Annotated[float, Between(0, 1000, open_low=True)],
    out: OutputFile,
    delta: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 1e-6,
    candidates: InputFile | None = None,
    model: str | None = None,
    base_url: str | None = None,
    responses: Annotated[int, Between(2, 100)] = 5,
    temperature: Annotated[float, Between(0, 5)] = 0.9,
    max_tokens: Annotated[int, Between(1, 100_000)] = 300,
    connections: Annotated[int, Between(1, 1000)] = 8,
    min_margin: Annotated[float, Between(0)] = 0.5,
    keep: Annotated[float, Between(0, 1, open_low=True)] | None = None,
    components: Annotated[int, Between(1, 10_000)] = 20,
    clusters: Annotated[int, Between(1, 100)] = 5,
    encoder: Path | None = None,
    draw: Annotated[int, Between(0)] = 0,
    refit: bool = False,
    seed: int | None = None,
    insecure: bool = False,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Learn tastes from private preferences with differential privacy and label public responses with them.

    An interrupted run goes on where it was: the model is fitted once and responses are paid for once.

    Args:
        preferences: Private records with prompt, chosen and rejected, as texts or as lists of messages: JSON Lines,
            JSON, CSV or Parquet.
        prompts: Public records with a prompt, in the same forms.
        epsilon: Privacy budget of the fit, for each record.
        delta: Probability-like part of the budget; well below one over the number of records, such as 1e-6.
        out: JSON Lines file of synthetic records in the same format; the fitted model, its privacy statement and the
            model's responses are written beside it.
        candidates: Public records with a prompt and its candidates (a list of texts), in place of a model.
        model: Model that writes the responses, by its inspect-ai name, such as ollama/llama3.1 or openai/gpt-4o.
        base_url: Address of the model's endpoint, where it is not the provider's own.
        responses: Responses to ask for a prompt.
        temperature: Sampling temperature of the model.
        max_tokens: Most tokens of a response.
        connections: Requests at a time.
        min_margin: Least reward by which the chosen response must lead.
        keep: Share of the labelled prompts to write, those with the largest lead, in place of --min-margin.
        components: Dimensions kept of the embeddings.
        clusters: Tastes to look for.
        encoder: Folder of a sentence encoder in the Hugging Face layout; by default the packaged all-MiniLM-L6-v2.
        draw: Seed with which each prompt draws whose taste labels it; public.
        refit: Fit again although there is a model beside the output, which spends the budget again.
        seed: Refused unless --insecure is given, since anybody with the seed could undo the noise.
        insecure: Say that this is a test, whose result protects nobody.
        report: HTML report; it holds only what is released.
    """
    from workingpapers.preferences.dpprefsyn.budget import Settings
    from workingpapers.preferences.dpprefsyn.generation import Sampling
    from workingpapers.preferences.dpprefsyn.running import Request, run_request

    request = Request(
        preferences=preferences,
        prompts=prompts,
        out=out,
        epsilon=epsilon,
        delta=delta,
        settings=Settings(components=components, clusters=clusters),
        encoder=encoder,
        candidates=candidates,
        sampling=Sampling(model, responses, temperature, max_tokens) if model else None,
        base_url=base_url,
        connections=connections,
        min_margin=min_margin,
        keep=keep,
        draw=draw,
        seed=seed,
        insecure=insecure,
        refit=refit,
        report=report,
    )
    return run_request(request, progress)
