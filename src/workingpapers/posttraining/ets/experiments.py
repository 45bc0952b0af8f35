"""The arms of the claims: laws on tables against the exact target, and a small language model on sorting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.tinylm import Recipe, Sorting, ready
from workingpapers.posttraining.ets.causal import CausalChain
from workingpapers.posttraining.ets.energy import optimal_success
from workingpapers.posttraining.ets.rewards import SelfConsistency, Verifier
from workingpapers.posttraining.ets.rivals import best_of, draws, majority_vote
from workingpapers.posttraining.ets.sampler import EnergyGuidedSampler
from workingpapers.posttraining.ets.states import Floats, Integers, States
from workingpapers.posttraining.ets.tables import TableChain, TableReward, target_law

VOCABULARY, LENGTH, LAMBDA = 3, 4, 0.25
LADDER = (2, 4, 8, 16)
Method = Literal["ets", "importance", "wrong ratio", "best of", "plain", "exact draws"]


class WholeRatio(TableChain):
    """A wrong form met in released code: the ratio covers the whole answer, the reference's own block included."""

    def log_probs(self, prompts: Sequence[Any], states: States, since: Integers) -> Floats:
        """Return log-probabilities of all tokens."""
        return super().log_probs(prompts, states, np.zeros_like(since))


def exact_target(
    seed: int,
    progress: Progress = silent,
    *,
    runs: int,
    method: Method = "ets",
    candidates: int = 16,
    rollouts: int = 1,
    block: int = 1,
) -> dict[str, float]:
    """Return the total variation distance of an output's law from p* on random tables with 81 answers.

    Args:
        seed: Of tables, rewards and draws.
        progress: Called along the way.
        runs: Answers.
        method: How answers are drawn.
        candidates: M.
        rollouts: K.
        block: Tokens of a block, of 4.
    """
    rng = np.random.default_rng(seed)
    chain = TableChain.random(VOCABULARY, LENGTH, rng)
    rewards = rng.random(VOCABULARY**LENGTH)
    proposal = chain.mixed(TableChain.random(VOCABULARY, LENGTH, rng), 0.6)
    target = target_law(chain.law(), rewards, LAMBDA)
    tokens = float("nan")
    if method == "exact draws":
        answers: Any = rng.choice(len(target), size=runs, p=target)
    elif method == "plain":
        answers = chain.read(range(runs), draws(chain, range(runs), 1, seed * runs)[0])
    elif method == "best of":
        answers, spent = best_of(chain, TableReward(rewards), range(runs), candidates, seed * runs)
        tokens = spent / runs
    else:
        reference = WholeRatio(chain.tables) if method == "wrong ratio" else chain
        writer = {"ets": None, "importance": proposal, "wrong ratio": WholeRatio(proposal.tables)}[method]
        sampler = EnergyGuidedSampler(
            reference, TableReward(rewards), temperature=LAMBDA, candidates=candidates, rollouts=rollouts, block=block,
            proposal=writer,
        )  # fmt: skip
        found = sampler.sample(range(runs), seeds=seed * runs, progress=progress)
        answers, tokens = found.completions, found.tokens.total / runs
    law = np.bincount(np.asarray(answers), minlength=len(target)) / runs
    return {"distance": float(0.5 * np.abs(law - target).sum()), "tokens": tokens}


def decay(
    seed: int, progress: Progress = silent, *, runs: int, rollouts: int = 1, block: int = 1, method: Method = "ets"
) -> dict[str, float]:
    """Return the slope of log distance against log M over M = 2, 4, 8, 16.

    Args:
        seed: Of tables, rewards and draws.
        progress: Called along the way.
        runs: Answers for each M.
        rollouts: K.
        block: Tokens of a block.
        method: How answers are drawn.
    """
    found = [
        exact_target(
            seed, part(progress, k / len(LADDER), (k + 1) / len(LADDER)), runs=runs, method=method, candidates=m,
            rollouts=rollouts, block=block,
        )["distance"]
        for k, m in enumerate(LADDER)
    ]  # fmt: skip
    slope = float(np.polyfit(np.log(LADDER), np.log(found), 1)[0])
    return {"slope": slope, **{f"distance_{m}": value for m, value in zip(LADDER, found, strict=True)}}


def sorter(width: int, steps: int, progress: Progress = silent) -> tuple[CausalChain, Sorting]:
    """Return a small model that was taught to sort six digits by a teacher who swaps neighbours, and the task.

    Args:
        width: Hidden size.
        steps: Training steps.
        progress: Called along the way.
    """
    task = Sorting(swap=0.5)
    model, tokenizer = ready(Recipe(task, width=width, steps=steps), progress)
    return CausalChain(model, tokenizer, longest=task.longest + 2, batch=1024), task


def verified(
    seed: int,
    progress: Progress = silent,
    *,
    method: Literal["ets", "importance", "best of", "plain"],
    temperature: float = 1.0,
    prompts: int,
    runs: int,
    pilot: int,
    train: int,
) -> dict[str, float]:
    """Return how far success rates are from those of p* when the reward is a checker's 0 or 1.

    Args:
        seed: Of prompts and draws; the model is the same.
        progress: Called along the way.
        method: How answers are drawn; best-of-N has as many candidates.
        temperature: lambda.
        prompts: Prompts with a success rate between 0.05 and 0.6.
        runs: Answers a prompt.
        pilot: Answers a prompt to estimate the reference's success rate.
        train: Training steps of the model.
    """
    chain, task = sorter(64, train, part(progress, 0.0, 0.3))
    reward = Verifier(
        lambda prompts, completions: [task.score(p, c) for p, c in zip(prompts, completions, strict=True)]
    )
    rng = np.random.default_rng(seed)
    asked: list[str] = []
    success: list[float] = []
    while len(asked) < prompts:
        fresh = [example.prompt for example in task.draw(prompts, rng)]
        ended, _ = draws(chain, fresh, pilot, int(rng.integers(2**31)))
        rows = [fresh[group] for group in ended.groups]
        rates = reward(rows, chain.read(fresh, ended), ended.groups).reshape(len(fresh), pilot).mean(-1)
        keep = [number for number, rate in enumerate(rates) if train < 500 or 0.05 < rate < 0.6]
        asked += [fresh[number] for number in keep]
        success += [float(rates[number]) for number in keep]
    asked, rates = asked[:prompts], np.array(success[:prompts])
    progress(0.5, "reference measured")
    many = [prompt for prompt in asked for _ in range(runs)]
    first, spent = int(rng.integers(2**31)), 0.0
    if method == "plain":
        ended, spent = draws(chain, many, 1, first)
        texts: Any = chain.read(many, ended)
    elif method == "best of":
        texts, spent = best_of(chain, reward, many, 16, first)
    else:
        writer = sorter(32, train)[0] if method == "importance" else None
        found = EnergyGuidedSampler(
            chain, reward, temperature=temperature, candidates=16, rollouts=2, block=2, proposal=writer
        ).sample(many, seeds=first, progress=part(progress, 0.5, 1.0))
        texts, spent = found.completions, found.tokens.total
    right = reward(many, texts, np.arange(len(many))).reshape(prompts, runs).mean(-1)
    wanted = optimal_success(rates, temperature)
    return {
        "gap": float(np.abs(right - wanted).mean()),
        "success": float(right.mean()),
        "optimal": float(wanted.mean()),
        "reference": float(rates.mean()),
        "tokens": spent / len(many),
    }


def agreed(
    seed: int,
    progress: Progress = silent,
    *,
    method: Literal["ets", "vote", "plain"],
    prompts: int,
    train: int,
) -> dict[str, float]:
    """Return the share of right answers where the reward is agreement among the completions.

    Args:
        seed: Of prompts and draws.
        progress: Called along the way.
        method: How answers are drawn; votes are taken among as many answers as ETS draws tokens for.
        prompts: Prompts.
        train: Training steps of the model.
    """
    chain, task = sorter(64, train, part(progress, 0.0, 0.3))
    rng = np.random.default_rng([seed, 1])
    asked = [example.prompt for example in task.draw(prompts, rng)]
    first = int(rng.integers(2**31))
    begun = time.process_time()
    if method == "plain":
        ended, spent = draws(chain, asked, 1, first)
        answers: Any = chain.read(asked, ended)
    else:
        sampler = EnergyGuidedSampler(
            chain, SelfConsistency(lambda text: text), temperature=0.1, candidates=8, rollouts=3, block=2
        )
        found = sampler.sample(asked, seeds=first, progress=part(progress, 0.3, 0.9))
        answers, spent = found.completions, found.tokens.total
        if method == "vote":
            ended, single = draws(chain, asked, 1, first)
            answers, spent = majority_vote(chain, lambda text: text, asked, max(1, round(spent / single)), first)
    right = float(np.mean([task.score(prompt, str(text)) for prompt, text in zip(asked, answers, strict=True)]))
    return {"accuracy": right, "tokens": spent / prompts, "seconds": time.process_time() - begun}
