"""BubbleSpec in TRL: `BubbleConfig` and `BubbleTrainer` take the places of `GRPOConfig` and `GRPOTrainer`.

TRL tokenises, scores and takes the step; only the writing of completions is replaced. Between a rank's last token and
the others' the rank drafts the prompts of the next step, which the sampler's seed tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from workingpapers.posttraining.bubblespec.decoding import Decoded, Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import DraftStore
from workingpapers.posttraining.bubblespec.noise import Key
from workingpapers.posttraining.bubblespec.scheduler import Arrivals, BubbleScheduler
from workingpapers.posttraining.bubblespec.verify import Sampling

Prompt = tuple[int, ...]


@dataclass
class BubbleConfig(GRPOConfig):  # type: ignore[misc]
    """`GRPOConfig` with what decides about drafts.

    Args:
        ahead: Most draft tokens of a sequence in a pass.
        capacity: Tokens of a pass up to which checking is free; None for no limit.
        window_passes: Passes of the window in a single process, which has nobody to wait for; 0 for no drafts there.
        coupled: Whether drafts share the noise of the rollouts that they are for.

    Raises:
        ValueError: For settings of `GRPOConfig` that change how completions are written.
    """

    ahead: int = field(default=8, metadata={"help": "Most draft tokens of a sequence in a pass."})
    capacity: int | None = field(default=None, metadata={"help": "Tokens of a pass that are free beside each other."})
    window_passes: int = field(default=0, metadata={"help": "Passes spent on drafts in a single process."})
    coupled: bool = field(default=True, metadata={"help": "Drafts share the rollouts' noise."})

    def __post_init__(self) -> None:
        if self.ahead < 1 or self.window_passes < 0 or (self.capacity is not None and self.capacity < 1):
            raise ValueError(
                f"ahead={self.ahead} and capacity={self.capacity} must be at least 1 and window_passes="
                f"{self.window_passes} not negative."
            )
        foreign = {
            "use_vllm": self.use_vllm,
            "use_transformers_continuous_batching": self.use_transformers_continuous_batching,
            "min_p": self.min_p is not None,
            "repetition_penalty": self.repetition_penalty != 1.0,
            "generation_kwargs": bool(self.generation_kwargs),
        }
        for name, given in foreign.items():
            if given:
                raise ValueError(f"{name} is set, and completions are written here by other means; leave it out.")
        super().__post_init__()  # type: ignore[no-untyped-call]


class BubbleTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's `GRPOTrainer` whose completions are drafted in idle windows; weights come out as without drafts.

    Logs ``bubblespec/passes``, ``/acceptance`` and ``/drafted`` beside TRL's metrics.

    Args:
        model: Model, or its name, or a PEFT model; see `GRPOTrainer`.
        reward_funcs: See `GRPOTrainer`.
        args: A :class:`BubbleConfig`.
        **options: Everything else that `GRPOTrainer` takes.

    Raises:
        TypeError: When `args` is no :class:`BubbleConfig`.
        ValueError: For tools, whose later turns are not drafted, and data sets that cannot be peeked.
    """

    _tag_names = ["trl", "grpo", "bubblespec"]  # noqa: RUF012 - TRL adds to a list
    _name = "BubbleSpec"
    _paper = {"title": "BubbleSpec", "id": "2605.08862"}  # noqa: RUF012

    def __init__(self, model: Any, reward_funcs: Any, args: BubbleConfig, **options: Any) -> None:
        if not isinstance(args, BubbleConfig):
            raise TypeError(f"args is a {type(args).__name__}; BubbleTrainer needs a BubbleConfig.")
        if options.get("tools") or options.get("rollout_func"):
            raise ValueError("Completions of several turns are not drafted here; train them with GRPOTrainer.")
        self.plan: BubbleConfig = args
        self.drafts = DraftStore()
        self._batches: list[list[int]] = []
        self._sampler: Any = None
        super().__init__(model, reward_funcs, args, **options)
        self.rows: Any = self.train_dataset
        if not hasattr(self.rows, "__getitem__"):
            raise ValueError("The data set is a stream, so the next prompts are not known; give one with a length.")

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], images: Any, multimodal_fields: Any, num_generations: int, *_: Any, **__: Any
    ) -> tuple[list[list[int]], None]:
        if images:
            raise ValueError("Images are not drafted here; train on them with GRPOTrainer.")
        policy: Any = self.model
        training = bool(policy.training)
        number = self._generation() if training else -1
        found = self._decode(self._requests([tuple(ids) for ids in prompt_ids], number, num_generations, training))
        if training:
            drafted = self._window(number, num_generations, found)
            metrics = self._metrics["train"]
            metrics["bubblespec/passes"].append(float(found.passes))
            metrics["bubblespec/acceptance"].append(found.acceptance)
            metrics["bubblespec/drafted"].append(float(drafted))
        return [list(one.tokens) for one in found.written], None

    def _generation(self) -> int:
        """Return the number of this batch of completions in the run; it is the visit in the noise's key."""
        every = int(self.plan.steps_per_generation or 1) * self.num_iterations
        return int(self.state.global_step * self.args.gradient_accumulation_steps // every)

    def _requests(self, prompts: list[Prompt], number: int, each: int, training: bool) -> list[Request]:
        first = self.accelerator.process_index * len(prompts)
        found = []
        for place, prompt in enumerate(prompts):
            sample = (first + place) % each
            stream = "train" if training else f"eval {self.state.global_step}"
            pool = tuple(self.drafts.pool((number, prompt), sample)) if training else ()
            found.append(Request(prompt, Key(self.args.seed, prompt, number, sample, stream), pool))
        return found

    def _decode(self, requests: list[Request], stop: Callable[[], bool] | None = None) -> Decoded:
        policy: Any = self.accelerator.unwrap_model(self.model)
        training = policy.training
        policy.eval()
        try:
            return lossless_decode(
                policy,
                requests,
                most=int(self.plan.max_completion_length or 0),
                ahead=self.plan.ahead,
                capacity=self.plan.capacity,
                sampling=Sampling(self.temperature, self.top_k, self.top_p),
                ends=self.eos_token_ids,
                stop=stop,
            )
        finally:
            policy.train(training)

    def _window(self, number: int, each: int, found: Decoded) -> int:
        """Draft the next batch until all ranks are here; return the tokens written."""
        self.drafts = DraftStore()
        stop = self._stop(number)
        rows = self._upcoming(number + 1)
        if stop is None or not rows:
            return 0
        ids, _, _ = self._tokenize_prompts([self.rows[row]["prompt"] for row in rows])
        requests = self._requests([tuple(one) for one in ids], number + 1, each, True)
        names = {(number + 1, one.prompt): one.prompt for one in requests}
        jobs = {((number + 1, one.prompt), one.key.sample): one for one in requests}
        scheduler = BubbleScheduler([list(names)], samples=each, store=self.drafts, version=number)
        count = 0
        while not stop():
            handed = scheduler.on_rank_done(0, len(requests))
            own = [(job, begun) for job, begun in handed if job in jobs]
            if not handed:
                break
            asked = [
                Request(jobs[job].prompt, jobs[job].key if self.plan.coupled else jobs[job].key.aside(), begun=begun)
                for job, begun in own
            ]
            for (job, begun), one in zip(own, self._decode(asked, stop).written, strict=True):
                scheduler.on_draft(0, job, one.tokens)
                count += len(one.tokens) - len(begun)
        scheduler.on_barrier()
        return count

    def _stop(self, number: int) -> Callable[[], bool] | None:
        if self.accelerator.num_processes > 1:
            from torch.distributed import distributed_c10d as module

            shared: Any = module
            arrivals = Arrivals(shared._get_default_store(), self.accelerator.num_processes)
            arrivals.arrive(number)
            return lambda: arrivals.all_here(number)
        if not self.plan.window_passes:
            return None
        left = [self.plan.window_passes]

        def spent() -> bool:
            left[0] -= 1
            return left[0] < 0

        return spent

    def _upcoming(self, number: int) -> list[int]:
        """Return this rank's rows of a batch of completions, one a completion, as the sampler will give them."""
        if self._sampler is None:
            self._sampler = self._get_train_sampler(self.rows)
        whole = int(self.plan.generation_batch_size or 0)
        length = whole * int(self.plan.steps_per_generation or 1) * self.num_iterations
        while len(self._batches) <= number:
            order = list(self._sampler)
            fresh = [order[start : start + whole] for start in range(0, len(order) - length + 1, length)]
            if not fresh:
                return []
            self._batches += fresh
        local = whole // self.accelerator.num_processes
        start = self.accelerator.process_index * local
        return self._batches[number][start : start + local]
