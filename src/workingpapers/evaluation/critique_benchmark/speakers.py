"""Who speaks: a small interface for chat models, and its implementation over inspect-ai."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from workingpapers.foundations.errors import InputError

ROLES = frozenset({"benchmark", "answer", "critique", "judge"})


@dataclass(frozen=True)
class Request:
    """What a model is asked.

    Args:
        system: Its role and the rubric.
        user: The task and the material.
        temperature: Sampling temperature; None leaves it to the endpoint.
        max_tokens: Most tokens of the reply.
        seed: Seed of the endpoint's sampling, where it has one.
    """

    system: str
    user: str
    temperature: float | None
    max_tokens: int
    seed: int


@dataclass(frozen=True)
class Reply:
    """What it says.

    Args:
        text: The reply.
        input_tokens: Tokens of the prompt.
        output_tokens: Tokens of the reply.
    """

    text: str
    input_tokens: int
    output_tokens: int


class Fault(Exception):
    """A call that gave no usable reply.

    Args:
        reason: Short name of what happened: "http 429", "timeout", "refusal", "cut off", "unreadable", ...
        detail: What the endpoint said.
        retry: Whether asking again may help.
    """

    def __init__(self, reason: str, detail: str = "", retry: bool = False) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail, self.retry = reason, detail, retry
        self.stage = self.model = ""


class Speaker(Protocol):
    """Anything that answers a request."""

    async def say(self, request: Request) -> Reply:
        """Return the reply or raise :class:`Fault`."""


@dataclass(frozen=True)
class Participant:
    """A model in the benchmark.

    Args:
        name: Its name in all tables.
        speaker: How it is asked.
        roles: What it does: benchmark (writes items), answer, critique (contradicts authors at the gate), judge.
        temperature: Sampling temperature; None leaves it to the endpoint.
        extra: Anything else that changes its replies; part of the key of every call.
    """

    name: str
    speaker: Speaker
    roles: frozenset[str] = ROLES
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.roles) - ROLES)
        if unknown or not self.roles:
            raise InputError(
                f"{self.name!r} has the roles {unknown or 'none'}; choose among {', '.join(sorted(ROLES))}."
            )


class InspectSpeaker:
    """A model that inspect-ai speaks to, such as "openai/gpt-4o", "ollama/llama3.1" or "openai-api/lab/model-a".

    For any OpenAI-compatible endpoint take "openai-api/LAB/MODEL"; its address stands in the environment variable
    LAB_BASE_URL or in `base_url`, its key in LAB_API_KEY.

    Args:
        model: inspect-ai's name of the model.
        base_url: Address of the endpoint; the provider's own where None.
        seconds: Most seconds to wait for one reply.
        connections: Most calls at a time.

    Raises:
        InputError: inspect-ai does not know the model, or its key or package is missing.
    """

    def __init__(self, model: str, base_url: str | None = None, seconds: float = 600.0, connections: int = 8) -> None:
        from inspect_ai.model import GenerateConfig, get_model

        # Retries are counted, budgeted and recorded by the caller, so the layers below make none.
        config = GenerateConfig(max_retries=0, attempt_timeout=int(max(1, seconds)), max_connections=connections)
        client: dict[str, Any] = {"max_retries": 0} if model.startswith(("openai-api/", "openai/")) else {}
        self._connect = partial(get_model, model, base_url=base_url, config=config, memoize=False, **client)
        try:
            self._model: Any = self._connect()
        except Exception as error:  # every provider has errors of its own
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"The model {model!r} cannot be used: {reason}.") from None

    async def say(self, request: Request) -> Reply:
        """Return the reply or raise :class:`Fault`.

        Args:
            request: What is asked.
        """
        from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageUser, GenerateConfig

        config = GenerateConfig(temperature=request.temperature, max_tokens=request.max_tokens, seed=request.seed)
        messages: list[ChatMessage] = [ChatMessageSystem(content=request.system), ChatMessageUser(content=request.user)]
        self._model = self._model or self._connect()
        try:
            output = await self._model.generate(messages, config=config)
        except Exception as error:  # every provider has errors of its own
            raise classify(error) from error
        if output.error:
            raise Fault("error", output.error, retry=True)
        if output.stop_reason == "content_filter":
            raise Fault("refusal", output.completion[:200])
        if output.stop_reason in ("max_tokens", "model_length"):
            raise Fault("cut off", f"the reply reached {request.max_tokens} tokens")
        if not output.completion.strip():
            raise Fault("empty reply", retry=True)
        usage = output.usage
        # Where an endpoint does not count, four characters a token is the customary guess.
        return Reply(
            output.completion,
            usage.input_tokens if usage else (len(request.system) + len(request.user)) // 4,
            usage.output_tokens if usage else len(output.completion) // 4,
        )

    async def aclose(self) -> None:
        """Close the connections, which belong to the running event loop; the next request opens new ones."""
        if self._model is not None:
            await self._model.api.aclose()
        self._model = None


def classify(error: BaseException) -> Fault | InputError:
    """Return the fault behind an exception of a provider; a wrong key or name is the user's to mend.

    Args:
        error: What the provider raised.
    """
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        attempt = getattr(current, "last_attempt", None)  # tenacity wraps the error of the last attempt
        current = attempt.exception() if attempt is not None else current.__cause__ or current.__context__
    detail = " ".join(str(chain[-1] if len(str(chain[0])) < 5 else chain[0]).split())[:300]
    for item in chain:
        status = getattr(item, "status_code", None)
        if isinstance(status, int):
            if status in (401, 403, 404):
                return InputError(f"The endpoint answers {status} ({detail[:160]}); check key, address and model name.")
            return Fault(f"http {status}", detail, retry=status in (408, 409, 425, 429) or status >= 500)
    names = " ".join(type(item).__name__.lower() for item in chain)
    if "timeout" in names:
        return Fault("timeout", detail, retry=True)
    if "connect" in names or any(isinstance(item, OSError) for item in chain):
        return Fault("connection", detail, retry=True)
    return Fault("error", f"{type(chain[0]).__name__}: {detail}", retry=True)
