"""Training on ranks that wait for each other: GRPO on a checkable task, with and without drafts from idle windows.

The same code runs all ranks in turn in one process, where a window lasts as many passes as the slowest rank still
needs, and one rank a process, where it lasts until all processes have arrived (gloo).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import encode_pairs
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.tinylm import PointerChasing, Recipe, ready
from workingpapers.posttraining.bubblespec.decoding import Decoded, Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import DraftStore
from workingpapers.posttraining.bubblespec.noise import Key
from workingpapers.posttraining.bubblespec.scheduler import Arrivals, BubbleScheduler, Order


@dataclass(frozen=True)
class Run:
    """A training run.

    Args:
        ranks: Ranks that meet at a barrier each step.
        steps: Updates.
        prompts: Prompts of a rank in a step.
        samples: Samples a prompt.
        speculative: Whether idle ranks write drafts.
        order: "own" for drafts of the rank's own prompts, "pooled" for those of all ranks.
        coupled: Whether drafts share the noise of the rollouts that they are for.
        ahead: Most draft tokens of a sequence in a pass.
        capacity: Tokens of a pass that are free beside each other; None for no limit.
        rate: Learning rate of AdamW.
        width: Of the model.
        base_steps: Steps in which the model is taught before.
        seed: Of prompts and noise.
    """

    ranks: int = 2
    steps: int = 10
    prompts: int = 2
    samples: int = 4
    speculative: bool = True
    order: Order = "pooled"
    coupled: bool = True
    ahead: int = 8
    capacity: int | None = None
    rate: float = 4e-4
    width: int = 32
    base_steps: int = 150
    seed: int = 0

    @property
    def task(self) -> PointerChasing:
        """What is learned: to follow pointers, with answers of very different lengths."""
        return PointerChasing(states=6, hops=(1, 2, 5), direct=0.25, checks=(0.35, 0.35, 0.30))

    @property
    def recipe(self) -> Recipe:
        """The model before."""
        return Recipe(self.task, width=self.width, steps=self.base_steps, learning_rate=3e-3, positions=48)


@dataclass
class Trained:
    """What a run leaves.

    Args:
        digest: Of all weights at the end, bit for bit.
        rewards: Mean reward of each step.
        critical: Passes of the slowest rank in each step.
        passes: Passes of all ranks in each step on their own sequences.
        drafted: Draft tokens written in idle windows in each step.
        accepted: Share of the checked draft tokens that stood in each step.
        window_seconds: Time that this process spent on drafts.
        seconds: Time of the whole run.
        texts: Digest of all tokens and log-probabilities.
    """

    digest: str = ""
    rewards: list[float] = field(default_factory=list)
    critical: list[int] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    window_seconds: float = 0.0
    seconds: float = 0.0
    texts: str = ""


class Learner:
    """The policy, its prompts and its updates; the same on every rank."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.model, self.tokenizer = ready(run.recipe)
        self.model = self.model.double()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=run.rate, weight_decay=0.0)
        self.text = hashlib.blake2b(digest_size=16)

    def prompts(self, step: int, rank: int) -> list[str]:
        """Return the prompts of a rank in a step; they are known in advance."""
        rng = np.random.default_rng([self.run.seed, step, rank])
        return [example.prompt for example in self.run.task.draw(self.run.prompts, rng)]

    def requests(self, step: int, rank: int, store: DraftStore | None) -> list[Request]:
        """Return the sequences of a rank in a step, with the drafts that there are."""
        found = []
        for place, prompt in enumerate(self.prompts(step, rank)):
            name = (step, rank, place)
            ids = encode_pairs(self.tokenizer, [prompt], [""], end=False)[0].prompt
            for sample in range(self.run.samples):
                pool = () if store is None else tuple(store.pool(name, sample))
                found.append(Request(ids, self.key(name, sample), pool))
        return found

    def key(self, name: tuple[int, int, int], sample: int) -> Key:
        """Return the key of a rollout's noise; a step's place is used once, so that the visit is always 0."""
        return Key(self.run.seed, name, 0, sample)

    def decode(self, requests: list[Request], stop: Callable[[], bool] | None = None) -> Decoded:
        """Write sequences with the present weights."""
        return lossless_decode(
            self.model, requests, most=self.run.task.longest + 3, ahead=self.run.ahead, capacity=self.run.capacity,
            stop=stop,
        )  # fmt: skip

    def backward(self, step: int, rank: int, decoded: Decoded, tokens: int) -> float:
        """Add a rank's gradient of the mean over `tokens` tokens of -A log p; return its mean reward."""
        run, task = self.run, self.run.task
        requests, written = self.requests(step, rank, None), decoded.written
        asked = [prompt for prompt in self.prompts(step, rank) for _ in range(run.samples)]
        texts = [self.tokenizer.decode(one.tokens, skip_special_tokens=True) for one in written]
        rewards = torch.tensor(
            [task.score(prompt, text) * one.ended for prompt, text, one in zip(asked, texts, written, strict=True)],
            dtype=torch.float64,
        ).reshape(run.prompts, run.samples)  # fmt: skip
        advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
        total = torch.zeros((), dtype=torch.float64)
        for request, one, advantage in zip(requests, written, advantages.reshape(-1), strict=True):
            total = total - advantage * self.log_probs(request, one.tokens).sum() / tokens
            self.text.update(np.array(one.tokens).tobytes())
        torch.autograd.backward(total)
        return float(rewards.mean())

    def log_probs(self, request: Request, tokens: tuple[int, ...]) -> Tensor:
        """Return log-probabilities of a completion by the present weights, with their gradient, shape (length,)."""
        ids = torch.tensor([[*request.prompt, *tokens]])
        logits = self.model(input_ids=ids[:, :-1], use_cache=False, logits_to_keep=len(tokens)).logits
        found: Tensor = logits[0].log_softmax(-1).gather(-1, ids[0, -len(tokens) :, None])[:, 0]
        return found

    def update(self) -> None:
        """Take the optimiser's step on the gradients that were added."""
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def digest(self) -> str:
        """Return a digest of all weights."""
        found = hashlib.blake2b(digest_size=16)
        for _, value in sorted(self.model.state_dict().items()):
            found.update(value.detach().cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    def scheduler(self, step: int, store: DraftStore) -> BubbleScheduler:
        """Return who drafts what of the step after this one."""
        names = [[(step + 1, rank, place) for place in range(self.run.prompts)] for rank in range(self.run.ranks)]
        return BubbleScheduler(
            names, samples=self.run.samples, order=self.run.order, store=store, version=step
        )  # fmt: skip

    def window(self, rank: int, scheduler: BubbleScheduler, stop: Callable[[], bool]) -> int:
        """Write drafts until told to stop or there are no more; return their tokens."""
        count = 0
        while not stop():
            jobs = scheduler.on_rank_done(rank, self.run.prompts * self.run.samples)
            if not jobs:
                break
            requests = []
            for (name, sample), begun in jobs:
                step, whose, place = cast(tuple[int, int, int], name)
                ids = encode_pairs(self.tokenizer, [self.prompts(step, whose)[place]], [""], end=False)[0].prompt
                key = self.key((step, whose, place), sample)
                requests.append(Request(ids, key if self.run.coupled else key.aside(), begun=begun))
            done = self.decode(requests, stop)
            for (job, begun), one in zip(jobs, done.written, strict=True):
                scheduler.on_draft(rank, job, one.tokens)
                count += len(one.tokens) - len(begun)
        return count


def train_in_turn(run: Run, progress: Progress = silent) -> Trained:
    """Run all ranks in turn in this process; a window lasts the passes that the slowest rank has left.

    Args:
        run: What to run.
        progress: Told of steps and rewards.
    """
    learner, found, begin = Learner(run), Trained(), time.perf_counter()
    store = DraftStore()
    for step in range(run.steps):
        decoded = [
            learner.decode(learner.requests(step, rank, store if run.speculative else None))
            for rank in range(run.ranks)
        ]
        barrier = max(one.passes for one in decoded)
        drafted, store = 0, DraftStore()
        if run.speculative and step + 1 < run.steps:
            scheduler = learner.scheduler(step, store)
            for rank in sorted(range(run.ranks), key=lambda rank: decoded[rank].passes):
                drafted += learner.window(rank, scheduler, _after(barrier - decoded[rank].passes))
        tokens = sum(len(one.tokens) for part in decoded for one in part.written)
        rewards = [learner.backward(step, rank, one, tokens) for rank, one in enumerate(decoded)]
        learner.update()
        _record(found, decoded, rewards, drafted)
        progress((step + 1) / run.steps, f"step {step + 1}, reward {found.rewards[-1]:.3f}")
    found.digest, found.texts, found.seconds = learner.digest(), learner.text.hexdigest(), time.perf_counter() - begin
    return found


def train_on_processes(run: Run, folder: Path, *, slow: dict[int, float] | None = None) -> list[Trained]:
    """Run each rank in a process of its own, with gradients summed by torch.distributed (gloo).

    Args:
        run: What to run.
        folder: An empty folder through which the processes meet and leave their results.
        slow: Seconds that a rank rests before each step's barrier, to stage a straggler.

    Returns:
        What each rank measured.

    Raises:
        InputError: When the folder is not empty.
    """
    import torch.multiprocessing as module

    processes: Any = module

    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; name a new folder.")
    Learner(run)  # the model is taught once, before the processes look for it
    processes.spawn(_process, args=(run, str(folder), slow or {}), nprocs=run.ranks, join=True)
    return [
        Trained(**json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8"))) for rank in range(run.ranks)
    ]


def _process(rank: int, run: Run, folder: str, slow: dict[int, float]) -> None:
    import os

    import torch.distributed as module

    distributed: Any = module
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = distributed.FileStore(str(Path(folder) / "meeting"), run.ranks)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=run.ranks)
    try:
        found = _train_rank(rank, run, Arrivals(distributed.PrefixStore("bubbles", store), run.ranks), slow)
    finally:
        distributed.destroy_process_group()
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(asdict(found)), encoding="utf-8")


def _train_rank(rank: int, run: Run, arrivals: Arrivals, slow: dict[int, float]) -> Trained:
    import torch.distributed as distributed

    learner, found, begin, drafts = Learner(run), Trained(), time.perf_counter(), DraftStore()
    for step in range(run.steps):
        one = learner.decode(learner.requests(step, rank, drafts if run.speculative else None))
        time.sleep(slow.get(rank, 0.0))
        drafts, drafted = DraftStore(), 0
        arrivals.arrive(step)
        if run.speculative and step + 1 < run.steps:
            start = time.perf_counter()
            scheduler = learner.scheduler(step, drafts)
            drafted = learner.window(rank, scheduler, lambda step=step: arrivals.all_here(step))  # type: ignore[misc]
            found.window_seconds += time.perf_counter() - start
            if run.order == "pooled":
                _exchange(drafts, step + 1, run)
        tokens = torch.tensor(float(sum(len(text.tokens) for text in one.written)), dtype=torch.float64)
        distributed.all_reduce(tokens)
        reward = learner.backward(step, rank, one, int(tokens))
        for parameter in learner.model.parameters():
            distributed.all_reduce(parameter.grad)
        learner.update()
        _record(found, [one], [reward], drafted)
    found.digest, found.texts, found.seconds = learner.digest(), learner.text.hexdigest(), time.perf_counter() - begin
    return found


def _exchange(store: DraftStore, step: int, run: Run) -> None:
    """Give all ranks the drafts of all; where two drafted the same, the longer stays."""
    import torch.distributed as distributed

    jobs = [((step, rank, place), sample) for rank in range(run.ranks) for place in range(run.prompts)
            for sample in range(run.samples)]  # fmt: skip
    mine = {job: draft for job in jobs if (draft := store.own(*job)) is not None}
    everyone: list[Any] = [None] * run.ranks
    distributed.all_gather_object(everyone, mine)
    for theirs in everyone:
        for job, draft in theirs.items():
            own = store.own(*job)
            if own is None or len(draft.tokens) > len(own.tokens):
                store.put(job[0], job[1], draft)


def _record(found: Trained, decoded: list[Decoded], rewards: list[float], drafted: int) -> None:
    checked = sum(text.drafted for one in decoded for text in one.written)
    stood = sum(text.accepted for one in decoded for text in one.written)
    found.rewards.append(sum(rewards) / len(rewards))
    found.critical.append(max(one.passes for one in decoded))
    found.passes.append(sum(one.passes for one in decoded))
    found.drafted.append(drafted)
    found.accepted.append(stood / checked if checked else 0.0)


def _after(passes: int) -> Callable[[], bool]:
    """Return a stop that says yes once it was asked before `passes` passes.

    The scheduler asks once more for each batch of drafts that it hands out; those are not passes.
    """
    left = [passes]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    return stop
