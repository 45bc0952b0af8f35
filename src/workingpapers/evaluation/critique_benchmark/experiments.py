"""The arms of the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from workingpapers.evaluation.critique_benchmark.rules import Resolution, ending, resolve
from workingpapers.evaluation.critique_benchmark.scripted import (
    ScriptedModel,
    Skills,
    Strategy,
    false_steps,
    read_problem,
)
from workingpapers.evaluation.critique_benchmark.simulation import Planted, simulate, votes
from workingpapers.foundations.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from workingpapers.evaluation.critique_benchmark.games import Tally
    from workingpapers.evaluation.critique_benchmark.plan import Plan
    from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT

Rating = Literal["itemised", "raw accuracy", "bipartite", "rasch", "plain", "elo"]
Adjudication = Literal["majority", "unanimity", "unanimity and humans", "majority and humans", "single judge"]
SOLVE = (1.8, 0.9, 0.0, -0.9, -1.8)
SLOPPY = 2


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation.

    Args:
        first: Shape (n,).
        second: Shape (n,).
    """
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def strengths(kind: Rating, games: pd.DataFrame, names: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Return answering and, where the rating has it, benchmarking strength of each model.

    Args:
        kind: Which rating.
        games: Columns answerer, author, item, outcome.
        names: Models, length n; one without games counts as average.
    """
    from workingpapers.evaluation.critique_benchmark import baselines

    if kind in ("raw accuracy", "plain", "elo"):
        rate: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
            "raw accuracy": baselines.raw_accuracy,
            "plain": baselines.plain_bradley_terry,
            "elo": baselines.online_elo,
        }
        found = rate[kind](games).reindex(names)
        return found.fillna(found.mean()).to_numpy(), None
    model = _model(kind)
    table = model.fit(games).ratings_.set_index("model").reindex(names)
    alpha = None if kind == "rasch" else table["alpha"].fillna(0.0).to_numpy()
    return table["beta"].fillna(0.0).to_numpy(), alpha


def recover(
    seed: int, progress: Progress, *, kind: Rating, accuracy: float, selective: bool = True, items: int = 44
) -> dict[str, float]:
    """E1: rate planted models from adjudicated games.

    Args:
        seed: Seed of the world; rating arms of one seed see the same games.
        progress: Progress callback.
        kind: Which rating.
        accuracy: Accuracy of each of seven judges, who decide by majority.
        selective: Whether strong answerers are sent to hard items.
        items: Items of each author.
    """
    planted, games = _adjudicated(seed, accuracy, selective, items)
    names = [f"m{k}" for k in range(len(planted.beta))]
    shuffled = games.sample(frac=1, random_state=seed, ignore_index=True)  # Elo must not see games sorted by model
    beta, alpha = strengths(kind, shuffled, names)
    progress(1.0)
    found = {"spearman": spearman(beta, planted.beta)}
    if alpha is not None:
        found["spearman_alpha"] = spearman(alpha, planted.alpha)
    return found


def gain(seed: int, progress: Progress, *, accuracy: float, selective: bool, items: int = 44) -> dict[str, float]:
    """E1, control: how much the itemised rating gains over raw accuracy in Spearman's correlation.

    Args:
        seed: Seed of the world.
        progress: Progress callback.
        accuracy: See :func:`recover`.
        selective: See :func:`recover`.
        items: See :func:`recover`.
    """
    scores = [
        recover(seed, progress, kind=kind, accuracy=accuracy, selective=selective, items=items)["spearman"]
        for kind in ("itemised", "raw accuracy")
    ]
    return {"gain": scores[0] - scores[1], "itemised": scores[0], "raw accuracy": scores[1]}


def predict(seed: int, progress: Progress, *, kind: str, item_scale: float = 1.0, items: int = 44) -> dict[str, float]:
    """E2: log-loss on a fifth of the games, whose items were seen in other games.

    Args:
        seed: Seed of the world.
        progress: Progress callback.
        kind: "itemised", "bipartite" or "rasch"; prior scales by empirical Bayes for all of them.
        item_scale: Planted standard deviation of the item effects.
        items: Items of each author.
    """
    rng = np.random.default_rng(seed)
    games = simulate(rng, item_scale=item_scale, items=items).frame()
    held = rng.random(len(games)) < 0.2
    held &= games["item"].isin(games["item"][~held]).to_numpy()
    model = _model(kind)
    model.fit(games[~held])
    p = model.predict_proba(games[held])[np.arange(held.sum()), games["outcome"][held].astype(int)]
    progress(1.0)
    return {"log_loss": float(-np.log(p).mean()), "item_scale": model.scales_.item}


def adjudicate(
    seed: int,
    progress: Progress,
    *,
    rule: Adjudication,
    accuracy: float = 0.8,
    shared_error: float = 0.0,
    human_share: float = 0.25,
    human_accuracy: float = 0.97,
    items: int = 44,
) -> dict[str, float]:
    """E4: decide claims by a rule, and rate the models from the games that survive.

    Args:
        seed: Seed of the world.
        progress: Progress callback.
        rule: How six judges decide; "and humans" sends a random share of the open claims to a human.
        accuracy: Accuracy of a judge.
        shared_error: Probability that a claim looks wrong to all judges.
        human_share: Share of the open claims that humans see.
        human_accuracy: Accuracy of a human.
        items: Items of each author.
    """
    rng = np.random.default_rng(seed)
    planted = simulate(rng, items=items)
    truth = ~planted.right[planted.claimed]
    upheld = votes(rng, truth, 6, accuracy, shared_error)
    asked = rng.random(len(truth)) < human_share
    human = votes(rng, truth, 1, human_accuracy)[:, 0]
    judges = [f"j{k}" for k in range(1 if rule == "single judge" else 6)]
    quorum: Literal["majority", "unanimous"] = "majority" if rule.startswith("majority") else "unanimous"
    word = {True: "claimant_wins", False: "defender_wins_incorrect"}
    resolutions = []
    for claim in range(len(truth)):
        panel = {judge: word[bool(vote)] for judge, vote in zip(judges, upheld[claim], strict=False)}
        found = resolve("critique", panel, judges, (), rule=quorum)
        if found.open and rule.endswith("humans") and asked[claim]:
            found = resolve("critique", panel, judges, (), [("human", word[bool(human[claim])])])
        resolutions.append(found)
    names = [f"m{k}" for k in range(len(planted.beta))]
    outcome = _outcomes(planted, resolutions)
    beta, alpha = strengths("itemised", planted.frame(outcome), names)
    decided = np.array([found.side is not None for found in resolutions])
    wrong = np.array([found.side is not None and (found.side == "claimant") != is_true for found, is_true in
                      zip(resolutions, truth, strict=True)])  # fmt: skip
    progress(1.0)
    return {
        "wrong_of_decided": float(wrong.sum() / decided.sum()),
        "wrong_of_all": float(wrong.mean()),
        "decided": float(decided.mean()),
        "games_lost": float(np.isnan(outcome).mean()),
        "spearman": spearman(beta, planted.beta),
        "spearman_alpha": spearman(alpha if alpha is not None else beta, planted.alpha),
    }


def world(
    seed: int, topics: int, *, ill_posed: float, strategy: Strategy = "honest", gates: bool = True
) -> tuple[Plan, tuple[Skills, ...]]:
    """Return a run of five scripted models, the middle one of which may be sloppy or game the benchmark.

    Args:
        seed: Seed of the scripted models.
        topics: Number of topics.
        ill_posed: Share of ill-posed items among those of the middle model.
        strategy: How the middle model attacks answers.
        gates: Whether there are a self-solve gate and ill-posed claims.
    """
    from workingpapers.evaluation.critique_benchmark.plan import Plan, Settings
    from workingpapers.evaluation.critique_benchmark.speakers import Participant

    skills = [Skills(solve=solve, level=-0.5, attack=0.9) for solve in SOLVE]
    skills[SLOPPY] = replace(skills[SLOPPY], ill_posed=ill_posed, strategy=strategy)
    names = [f"model-{'abcde'[k]}" for k in range(len(skills))]
    models = tuple(
        Participant(name, ScriptedModel(name, skill, seed)) for name, skill in zip(names, skills, strict=True)
    )
    settings = Settings(debate_rounds=1, gate=gates, ill_posed_claims=gates, attempts=8)
    return Plan(models, tuple(f"topic {k}" for k in range(topics)), settings), tuple(skills)


def play(plan: Plan) -> tuple[Tally, Mapping[str, tuple[bool, bool]], str]:
    """Run the protocol in memory; return its tally, the truth about its items, and the digest of its store.

    The truth about an item is whether it is ill-posed, and whether its author's own answer is wrong.

    Args:
        plan: The run, of scripted models.
    """
    from workingpapers.evaluation.critique_benchmark.games import tally
    from workingpapers.evaluation.critique_benchmark.protocol import Benchmark
    from workingpapers.evaluation.critique_benchmark.store import EventStore

    store = EventStore()
    Benchmark(plan, store).run()
    sound = {}
    for event in store.events("question"):
        problem = read_problem(event["text"])
        sound[event["item"]] = (problem.ill_posed, bool(false_steps(problem, event["self_answer"])))
    return tally(store, plan), sound, store.digest()


def protocol(seed: int, progress: Progress, *, topics: int, gates: bool) -> dict[str, float]:
    """E3: the whole protocol with an author of whose items 30 % are ill-posed, with or without the gates.

    The excess of the sloppy author is its benchmarking strength minus that in a run, with gates, in which the same
    author writes well-posed items alone.

    Args:
        seed: Seed of the scripted models.
        progress: Progress callback.
        topics: Number of topics.
        gates: Whether there are a self-solve gate and ill-posed claims.
    """
    plan, skills = world(seed, topics, ill_posed=0.3, gates=gates)
    found, truth, _ = play(plan)
    progress(0.5)
    twin, _, _ = play(world(seed, topics, ill_posed=0.0)[0])
    names = [who.name for who in plan.participants]
    beta, alpha = strengths("itemised", found.games, names)
    _, honest = strengths("itemised", twin.games, names)
    assert alpha is not None
    assert honest is not None
    fate = found.questions
    ill_posed, unsolved = (fate["item"].map(lambda item, k=k: truth[item][k]) for k in (0, 1))
    bad = fate[ill_posed]
    good = fate[~ill_posed & ~unsolved & (fate["author"] != names[SLOPPY])]
    progress(1.0)
    return {
        "excess": float(alpha[SLOPPY] - honest[SLOPPY]),
        "spearman": spearman(beta, np.array([skill.solve for skill in skills])),
        "ill_posed_removed": float((bad["fate"] != "accepted").mean()) if len(bad) else float("nan"),
        "others_void": float(good["fate"].isin(["refuted", "ill-posed"]).mean()),
        "games_lost": len(found.drops) / (len(found.drops) + len(found.games)),
    }


def gaming(
    seed: int, progress: Progress, *, topics: int, strategy: Strategy, adjudicated: bool = True
) -> dict[str, float]:
    """E5: benchmarking strength of an author that attacks every answer, or none.

    Args:
        seed: Seed of the scripted models.
        progress: Progress callback.
        topics: Number of topics.
        strategy: How the middle model attacks.
        adjudicated: Whether judges rule on its claims; without them every claim counts.
    """
    plan, _ = world(seed, topics, ill_posed=0.0, strategy=strategy)
    found, _, _ = play(plan)
    games = found.games
    if not adjudicated:
        import pandas as pd

        claims = found.claims[found.claims["mode"] == "evaluator"]
        attacked = set(zip(claims["item"], claims["answerer"], strict=True))
        columns = ["answerer", "author", "item"]
        open_ones = found.drops[found.drops["reason"] == "critique undecided"]
        games = pd.concat([games[columns], open_ones[columns]], ignore_index=True)
        lost = [pair in attacked for pair in zip(games["item"], games["answerer"], strict=True)]
        games = games.assign(outcome=[float(not was_attacked) for was_attacked in lost])
    names = [who.name for who in plan.participants]
    _, alpha = strengths("itemised", games, names)
    assert alpha is not None
    progress(1.0)
    return {"alpha": float(alpha[SLOPPY]), "games_lost": len(found.drops) / (len(found.drops) + len(found.games))}


def _model(kind: str) -> ItemizedBT:
    from workingpapers.evaluation.critique_benchmark import baselines
    from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT

    return {"itemised": ItemizedBT(), "bipartite": baselines.bipartite(), "rasch": baselines.rasch()}[kind]


def _adjudicated(seed: int, accuracy: float, selective: bool, items: int) -> tuple[Planted, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    planted = simulate(rng, selective=selective, items=items)
    upheld = votes(rng, ~planted.right, 7, accuracy).sum(axis=1) > 3
    return planted, planted.frame((~(planted.claimed & upheld)).astype(float))


def _outcomes(planted: Planted, resolutions: list[Resolution]) -> np.ndarray:
    """Return the outcome of every game by the rules of the protocol; NaN where it is dropped."""
    outcome = np.full(len(planted.right), np.nan)
    claims = iter(resolutions)
    for game, claimed in enumerate(planted.claimed):
        critique = ("incorrect", next(claims)) if claimed else ("correct", None)
        found = ending("succeeded", None, [critique]).outcome
        outcome[game] = np.nan if found is None else found
    return outcome
