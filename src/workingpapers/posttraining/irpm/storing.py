"""A judge in a folder: the model (or an adapter), how it is asked, and how its answers are read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import whole_file
from workingpapers.foundations.progress import Progress, silent
from workingpapers.posttraining.irpm.judge import JudgePrompt, PointwiseJudge, model_speaker
from workingpapers.posttraining.irpm.parsing import ScoreParser

FACTS, MODEL = "judge.json", "model"
TINY = "tiny"


@dataclass(frozen=True)
class JudgeFacts:
    """What a judge's folder says beside the model.

    Args:
        base: Name of the model that an adapter lies on, or None where the folder holds the whole model.
        template: The judge's prompt, with {prompt} and {response}.
        chat: Whether prompts are messages.
        pattern: Regular expression of a judgement.
        low: Least score.
        high: Largest score.
        most: Most tokens of a judgement.
    """

    base: str | None
    template: str
    chat: bool
    pattern: str
    low: float
    high: float
    most: int

    @property
    def prompt(self) -> JudgePrompt:
        """How prompts are made."""
        return JudgePrompt(self.template, self.chat)

    @property
    def parser(self) -> ScoreParser:
        """How scores are read."""
        return ScoreParser(self.pattern, self.low, self.high)


def load_judge(
    folder: str | Path, *, votes: int = 1, batch: int = 16, seed: int = 0, progress: Progress = silent
) -> PointwiseJudge:
    """Return a trained judge from its folder, ready to score, compare and rank.

    Args:
        folder: What ``papers run irpm train`` wrote.
        votes: Judgements a response; one is greedy, more are drawn at temperature 1.
        batch: Judgements at a time.
        seed: Of the draws.
        progress: Told where the base has to be made first.

    Raises:
        InputError: When there is no judge, or its adapter does not fit the base.
    """
    import torch

    from workingpapers.foundations.language import load_adapter, load_model

    place = Path(folder)
    if not (place / FACTS).is_file() or not (place / MODEL).is_dir():
        raise InputError(f"{str(folder)!r} holds no trained judge; make one with papers run irpm train.")
    try:
        facts = JudgeFacts(**json.loads((place / FACTS).read_text(encoding="utf-8")))
        prompt, parser = facts.prompt, facts.parser
    except (TypeError, ValueError) as error:
        raise InputError(f"{str(place / FACTS)!r} does not describe a judge ({error}); train it again.") from None
    if facts.base is None:
        model, tokenizer = load_model(str(place / MODEL))
    else:
        model, tokenizer = load_base(facts.base, progress)
        model = load_adapter(model, place / MODEL).merge_and_unload().eval()
    if torch.cuda.is_available():
        model = model.cuda()
    temperature = 0.0 if votes == 1 else 1.0
    speak = model_speaker(model, tokenizer, most=facts.most, temperature=temperature, batch=batch, seed=seed)
    return PointwiseJudge(speak, prompt=prompt, parser=parser, votes=votes)


def load_base(name: str, progress: Progress = silent, *, dtype: Any = None) -> tuple[Any, Any]:
    """Return a model and its tokenizer by its name; "tiny" is taught on the spot.

    Args:
        name: "tiny", or what `foundations.language.load_model` takes.
        progress: Told of the share done.
        dtype: Of the weights.
    """
    from workingpapers.foundations.language import load_model
    from workingpapers.foundations.tinylm import ready

    if name == TINY:
        from workingpapers.posttraining.irpm.counting import TINY_JUDGE

        found: tuple[Any, Any] = ready(TINY_JUDGE, progress)
        return found
    return load_model(name, dtype=dtype)


def save_judge(folder: Path, model: Any, tokenizer: Any, facts: JudgeFacts) -> None:
    """Write a judge into its folder.

    Args:
        folder: Where.
        model: Model or adapter; an adapter is merged where `facts` name no base, as with "tiny", which is nowhere on
            a hub.
        tokenizer: Its tokenizer.
        facts: What goes beside it.
    """
    if facts.base is None and hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    model.save_pretrained(folder / MODEL)
    tokenizer.save_pretrained(folder / MODEL)
    with whole_file(folder / FACTS) as stream:
        json.dump(asdict(facts), stream, indent=1)
