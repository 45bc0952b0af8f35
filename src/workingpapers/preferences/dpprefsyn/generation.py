"""Responses to public prompts by any model that inspect-ai speaks to; each is kept as soon as it is there."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from filelock import FileLock, Timeout

from workingpapers.foundations.conversations import Prompt, plain_text
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import cache_directory
from workingpapers.foundations.progress import Progress, silent


@dataclass(frozen=True)
class Sampling:
    """How a model is asked.

    Args:
        model: inspect-ai's name of the model, such as openai/gpt-4o or ollama/llama3.1.
        count: L, responses to each prompt.
        temperature: Sampling temperature.
        max_tokens: Most tokens of a response.
    """

    model: str
    count: int = 5
    temperature: float = 0.9
    max_tokens: int = 300


class ResponseFile:
    """What a model has said so far, one JSON object a line, only ever appended to. Use it as a context manager.

    A line holds the request's key and either a text or the reason why there is none. A reason that may pass (a timeout,
    a busy endpoint) does not keep a later run from asking again; a text or a refusal does.

    Args:
        path: The file, made with the first response.
        sampling: How the model is asked: part of the key.

    Raises:
        InputError: The file is of another kind, or another run has it open.
    """

    def __init__(self, path: Path, sampling: Sampling) -> None:
        self.path, self.sampling = path, sampling
        self._known: dict[str, dict[str, Any]] = {}
        self._stream: IO[bytes] | None = None
        name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
        self._lock = FileLock(cache_directory() / f"responses-{name}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{str(path)!r} is in use by another run; wait for it or name another --out.") from None
        try:
            if path.exists():
                self._load()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ResponseFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others have it."""
        if self._stream:
            self._stream.close()
            self._stream = None
        self._lock.release()

    def key(self, prompt: Prompt, number: int) -> str:
        """Return the key of a request.

        Args:
            prompt: The prompt.
            number: Which of its responses.
        """
        settings = {name: value for name, value in asdict(self.sampling).items() if name != "count"}
        asked = json.dumps([prompt, number, settings], sort_keys=True)
        return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()

    def missing(self, prompts: Sequence[Prompt]) -> list[tuple[Prompt, int]]:
        """Return the requests that must still be made, those of a prompt together.

        Args:
            prompts: The prompts.
        """
        return [
            (prompt, number)
            for prompt in prompts
            for number in range(self.sampling.count)
            if self._known.get(self.key(prompt, number), {}).get("again", True)
        ]

    def responses(self, prompts: Sequence[Prompt]) -> list[list[str]]:
        """Return the texts that came, a list for each prompt.

        Args:
            prompts: The prompts.
        """
        found = []
        for prompt in prompts:
            lines = [self._known.get(self.key(prompt, number), {}) for number in range(self.sampling.count)]
            found.append([str(line["text"]) for line in lines if "text" in line])
        return found

    def faults(self, prompts: Sequence[Prompt]) -> dict[str, int]:
        """Return how many requests of the prompts gave nothing, by reason.

        Args:
            prompts: The prompts.
        """
        counts: dict[str, int] = {}
        for prompt in prompts:
            for number in range(self.sampling.count):
                reason = self._known.get(self.key(prompt, number), {}).get("fault")
                if reason is not None:
                    counts[reason] = counts.get(reason, 0) + 1
        return counts

    def add(self, prompt: Prompt, number: int, said: Mapping[str, Any]) -> None:
        """Append what came of a request.

        Args:
            prompt: The prompt.
            number: Which of its responses.
            said: ``{"text": ..., "again": False}`` or ``{"fault": ..., "again": ...}``.
        """
        line = {"key": self.key(prompt, number), "prompt": prompt, "number": number, **said}
        self._known[line["key"]] = line
        if self._stream is None:
            self._stream = self.path.open("ab")
        self._stream.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
        self._stream.flush()

    def _load(self) -> None:
        raw = self.path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        for number, text in enumerate(raw[:whole].splitlines(), 1):
            try:
                line = json.loads(text)
                if not isinstance(line["again"], bool) or not ("text" in line or "fault" in line):
                    raise KeyError("again")
                self._known[line["key"]] = line
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f"Line {number} of {str(self.path)!r} is no response of a model; restore it or move the file away."
                ) from None
        if raw and not whole:
            raise InputError(f"{str(self.path)!r} holds no responses of a model; move the file away.")
        if whole < len(raw):  # a killed run leaves half a line, a response that never came
            with self.path.open("r+b") as stream:
                stream.truncate(whole)


def generate(
    file: ResponseFile,
    prompts: Sequence[Prompt],
    *,
    connections: int = 8,
    retries: int = 3,
    seconds: float = 120.0,
    base_url: str | None = None,
    progress: Progress = silent,
) -> None:
    """Ask for every response that the file lacks.

    Args:
        file: Where responses are kept.
        prompts: The prompts.
        connections: Requests at a time.
        retries: Times that a request which may succeed later is made again.
        seconds: Most seconds for one response.
        base_url: Address of the endpoint; the provider's own where None.
        progress: Called after each response.

    Raises:
        InputError: inspect-ai does not know the model, its key is missing, or the endpoint refuses key or model.
    """
    wanted = file.missing(prompts)
    if not wanted:
        return
    model = connect(file.sampling, connections, seconds, base_url)
    asyncio.run(_generate(model, file, wanted, connections, retries, seconds, progress))


def connect(sampling: Sampling, connections: int = 8, seconds: float = 120.0, base_url: str | None = None) -> Any:
    """Return inspect-ai's model.

    Args:
        sampling: Model and sampling.
        connections: Requests at a time.
        seconds: Most seconds for one response.
        base_url: Address of the endpoint.

    Raises:
        InputError: The model cannot be used; the provider's reason is told.
    """
    from inspect_ai.model import GenerateConfig, get_model

    config = GenerateConfig(
        temperature=sampling.temperature,
        max_tokens=sampling.max_tokens,
        max_retries=0,  # retries are made, and counted, here
        attempt_timeout=max(1, int(seconds)),
        max_connections=connections,
    )
    client: dict[str, Any] = {"max_retries": 0} if sampling.model.startswith(("openai/", "openai-api/")) else {}
    try:
        return get_model(sampling.model, config=config, base_url=base_url, memoize=False, **client)
    except Exception as error:  # every provider has errors of its own
        plain = re.sub(r"\[/?[a-z ]*\]|^ERROR:\s*", "", str(error))  # the provider colours its messages
        reason = " ".join(plain.split()).rstrip(".")
        raise InputError(f"The model {sampling.model!r} cannot be used: {reason[:300]}.") from None


async def _generate(
    model: Any,
    file: ResponseFile,
    wanted: Sequence[tuple[Prompt, int]],
    connections: int,
    retries: int,
    seconds: float,
    progress: Progress,
) -> None:
    queue, done = iter(wanted), 0

    async def work() -> None:
        nonlocal done
        for prompt, number in queue:  # workers share the iterator, so few tasks exist however many prompts there are
            file.add(prompt, number, await _ask(model, prompt, retries, seconds))
            done += 1
            progress(done / len(wanted), f"{done:,} of {len(wanted):,} responses")

    tasks = [asyncio.create_task(work()) for _ in range(min(connections, len(wanted)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await model.api.aclose()


async def _ask(model: Any, prompt: Prompt, retries: int, seconds: float) -> dict[str, Any]:
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    messages: list[ChatMessage] = [kinds.get(turn["role"], ChatMessageUser)(content=turn["content"]) for turn in turns]
    said: dict[str, Any] = {}
    for attempt in range(retries + 1):
        try:
            output = await asyncio.wait_for(model.generate(messages), seconds)
        except Exception as error:  # every provider has errors of its own
            said = _fault(error)
        else:
            if output.stop_reason == "content_filter":
                return {"fault": "refusal", "again": False}
            if output.completion.strip():  # also where it was cut off at max_tokens
                return {"text": output.completion, "again": False}
            said = {"fault": "error" if output.error else "empty response", "again": True}
        if not said["again"]:
            return said
        if attempt < retries:
            await asyncio.sleep(min(30.0, 0.5 * 2**attempt))
    return said


def _fault(error: BaseException) -> dict[str, Any]:
    """Return the fault behind an exception of a provider; a wrong key, address or name is the user's to mend."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        attempt = getattr(current, "last_attempt", None)  # tenacity wraps the error of the last attempt
        current = attempt.exception() if attempt is not None else current.__cause__ or current.__context__
    for item in chain:
        status = getattr(item, "status_code", None)
        if isinstance(status, int):
            if status in (401, 403, 404):
                detail = " ".join(str(item).split())[:160]
                raise InputError(
                    f"The endpoint answers {status} ({detail}); check key, address and model, and run again to go on."
                ) from None
            return {"fault": f"http {status}", "again": status in (408, 409, 425, 429) or status >= 500}
    names = " ".join(type(item).__name__.lower() for item in chain)
    reason = "timeout" if "timeout" in names else "connection" if "connect" in names else type(error).__name__
    return {"fault": reason, "again": True}


def pool_responses(
    pool: Mapping[str, Sequence[str]], prompts: Sequence[Prompt], path: Path, count: int | None = None
) -> list[list[str]]:
    """Return the responses of a pool to the prompts.

    Args:
        pool: Responses by text of the prompt.
        prompts: The prompts.
        path: File of the pool, for messages.
        count: Most responses to a prompt; all where None.

    Raises:
        InputError: The pool knows none of the prompts.
    """
    found = [list(pool.get(plain_text(prompt), ()))[:count] for prompt in prompts]
    if not any(found):
        raise InputError(
            f"{str(path)!r} has candidates for none of the {len(prompts)} prompts; its prompts must be the same texts."
        )
    return found
