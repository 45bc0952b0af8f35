"""Who owns which work, and by which policy money is divided: what the operator states and the journal records."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import read_text
from workingpapers.governance.data_royalties.money import fraction_of

IDENTIFIER = r"[!-+.-{}][!-+\--{}]{0,199}"
"""Printable ASCII without space, comma, bar and tilde, which the journal's event lines use; no leading dash."""
STATUSES = ("active", "hold")


def identifier(text: object, what: str) -> str:
    """Return `text` if it can name something in the journal.

    Raises:
        InputError: It is empty, longer than 200 characters, or holds other characters than :data:`IDENTIFIER`.
    """
    if not re.fullmatch(IDENTIFIER, str(text)):
        raise InputError(
            f"{what} is {str(text)[:60]!r}; use 1 to 200 printable ASCII characters without space, ',', '|' or '~'."
        )
    return str(text)


@dataclass(frozen=True)
class Provider:
    """Somebody who is paid.

    Args:
        id: Identifier in the journal.
        name: Name on statements and transfers.
        payout_account: IBAN or another account text of the bank.
        withholding: Share of each payout that is kept back for tax.
        status: ``"active"``, or ``"hold"``: money accrues and is not paid.
    """

    id: str
    name: str
    payout_account: str = ""
    withholding: Fraction = Fraction(0)
    status: str = "active"

    def __post_init__(self) -> None:
        identifier(self.id, "A provider id")
        if not 0 <= self.withholding < 1:
            raise InputError(
                f"The withholding of provider {self.id!r} is {self.withholding}; it must be from 0 to below 1."
            )
        if self.status not in STATUSES:
            raise InputError(f"The status of provider {self.id!r} is {self.status!r}; use 'active' or 'hold'.")


@dataclass(frozen=True)
class Work:
    """Something that models are trained on or read from.

    Args:
        id: Identifier in the scores.
        shares: Provider id -> share of the work's money; the shares sum to 1 exactly.
        content_hash: SHA-256, ISCC or another name of the content.
        licence: Its licence, as text or URI; recorded, not judged.
        valid_from: First day on which use is paid to the providers (``""``: always).
        valid_to: Last such day (``""``: for ever).
        models: Model versions whose use is paid (empty: all).
    """

    id: str
    shares: tuple[tuple[str, Fraction], ...]
    content_hash: str = ""
    licence: str = ""
    valid_from: str = ""
    valid_to: str = ""
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        identifier(self.id, "A work id")
        total = sum((share for _, share in self.shares), Fraction(0))
        if total != 1 or any(share <= 0 for _, share in self.shares):
            raise InputError(f"The shares of work {self.id!r} sum to {total}; they must be positive and sum to 1.")
        for day in (self.valid_from, self.valid_to):
            if day:
                _day(day, f"A validity date of work {self.id!r}")

    def payable(self, day: str, model_version: str) -> bool:
        """Whether use on `day` (``YYYY-MM-DD``) by `model_version` is paid to the providers."""
        return (
            (not self.valid_from or self.valid_from <= day)
            and (not self.valid_to or day <= self.valid_to)
            and (not self.models or model_version in self.models)
        )


@dataclass(frozen=True)
class Policy:
    """How the money of an event is divided; a decision of the contract, not a result of attribution.

    Args:
        developer_share: Share of the net that the developer keeps.
        pool_share: Share that is dealt out by attribution.
        reserve_share: Share kept for disputes. The three sum to 1.
        min_score: Subtracted from every score before it counts.
        confidence_z: Standard errors subtracted from every score before it counts.
        unattributed: Who gets the parts that no work has a claim to: ``"escrow"`` or ``"developer"``.
        unknown: Who gets the parts of works that are not registered or not licensed for this use: ``"escrow"``,
            ``"developer"``, or ``"pro_rata"`` (the other works of the event).
        rounding: ``"carry"`` (fractions of a minor unit wait for the next period) or ``"largest_remainder"``.
        payout_threshold_minor: Smallest payout in minor units.
        dispute_window_days: Days after a period's end before its money can be paid.
    """

    developer_share: Fraction
    pool_share: Fraction
    reserve_share: Fraction = Fraction(0)
    min_score: float = 0.0
    confidence_z: float = 0.0
    unattributed: str = "escrow"
    unknown: str = "escrow"
    rounding: str = "carry"
    payout_threshold_minor: int = 0
    dispute_window_days: int = 0

    def __post_init__(self) -> None:
        total = self.developer_share + self.pool_share + self.reserve_share
        if total != 1 or min(self.developer_share, self.pool_share, self.reserve_share) < 0:
            raise InputError(
                f"The shares of developer, pool and reserve sum to {total}; they must sum to 1, none below 0."
            )
        for name, allowed in (
            ("unattributed", ("escrow", "developer")),
            ("unknown", ("escrow", "developer", "pro_rata")),
            ("rounding", ("carry", "largest_remainder")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"The policy's {name} is {getattr(self, name)!r}; use one of {', '.join(allowed)}.")
        for name in ("payout_threshold_minor", "dispute_window_days"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InputError(f"The policy's {name} is {value!r}; use a whole number from 0.")
        for name in ("min_score", "confidence_z"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < 1e300:
                raise InputError(f"The policy's {name} is {value!r}; use a number from 0.")


def as_json(item: Provider | Work | Policy) -> dict[str, Any]:
    """Return `item` as JSON types, fractions as ``"1/3"``."""
    record = asdict(item)
    if isinstance(item, Work):
        record["shares"] = {provider: str(share) for provider, share in item.shares}
        record["models"] = list(item.models)
    return {key: str(value) if isinstance(value, Fraction) else value for key, value in record.items()}


def provider_from(record: dict[str, Any]) -> Provider:
    """Return the provider of a JSON `record` (see :func:`as_json`)."""
    return Provider(**{**record, "withholding": fraction_of(record["withholding"], "withholding")})


def work_from(record: dict[str, Any]) -> Work:
    """Return the work of a JSON `record` (see :func:`as_json`)."""
    shares = tuple((provider, fraction_of(share, "A share")) for provider, share in sorted(record["shares"].items()))
    return Work(**{**record, "shares": shares, "models": tuple(record["models"])})


def policy_from(record: dict[str, Any]) -> Policy:
    """Return the policy of a `record` with fractions as text.

    Raises:
        InputError: A field is unknown, missing or out of its range.
    """
    names = [field.name for field in fields(Policy)]
    for name in record:
        if name not in names:
            raise InputError(f"The policy has a field {name!r}{near_match(name, names) or '; leave it out.'}")
    for name in ("developer_share", "pool_share"):
        if name not in record:
            raise InputError(f"The policy has no {name!r}; add it, such as {name} = '1/2'.")
    exact = {name: fraction_of(value, name) for name, value in record.items() if name.endswith("_share")}
    return Policy(**{**record, **exact})


def read_policy(path: Path) -> Policy:
    """Return the policy of a TOML file.

    Raises:
        InputError: It is not TOML, or not a policy.
    """
    try:
        return policy_from(tomllib.loads(read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{str(path)!r} is not TOML: {error}.") from None


def read_providers(path: Path) -> list[Provider]:
    """Return the providers of a CSV file: id, name and, optionally, payout_account, withholding, status."""
    rows = _rows(path, needed=("id", "name"), optional=("payout_account", "withholding", "status"))
    found = [
        Provider(
            id=row["id"],
            name=row["name"],
            payout_account=row.get("payout_account") or "",
            withholding=fraction_of(row.get("withholding") or "0", f"The withholding of provider {row['id']!r}"),
            status=row.get("status") or "active",
        )
        for row in rows
    ]
    _unique([item.id for item in found], "provider", path)
    return found


def read_works(path: Path) -> list[Work]:
    """Return the works of a CSV file with one line for each work and provider.

    Columns: work, provider and, optionally, share (default 1), content_hash, licence, valid_from, valid_to and models
    (separated by ``;``), of which a work's first line counts.
    """
    extra = ("content_hash", "licence", "valid_from", "valid_to")
    rows = _rows(path, needed=("work", "provider"), optional=("share", *extra, "models"))
    shares: dict[str, dict[str, Fraction]] = defaultdict(dict)
    first: dict[str, dict[str, str]] = {}
    for row in rows:
        work, provider = row["work"], row["provider"]
        if provider in shares[work]:
            raise InputError(f"{str(path)!r} gives provider {provider!r} of work {work!r} twice; keep one line.")
        shares[work][provider] = fraction_of(row.get("share") or "1", f"The share of {provider!r} in work {work!r}")
        first.setdefault(work, row)
    return [
        Work(
            id=work,
            shares=tuple(sorted(shares[work].items())),
            **{name: row.get(name) or "" for name in extra},  # type: ignore[arg-type]
            models=tuple(filter(None, (row.get("models") or "").split(";"))),
        )
        for work, row in first.items()
    ]


def _rows(path: Path, needed: tuple[str, ...], optional: tuple[str, ...]) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(read_text(path)))
    columns = reader.fieldnames or []
    for name in needed:
        if name not in columns:
            hint = near_match(name, columns) or f"; it has {', '.join(columns[:8])}."
            raise InputError(f"{str(path)!r} has no column {name!r}{hint}")
    for name in columns:
        if name not in needed + optional:
            hint = near_match(name, needed + optional) or "; leave it out."
            raise InputError(f"{str(path)!r} has an unknown column {name!r}{hint}")
    rows = [{key: (value or "").strip() for key, value in row.items() if key} for row in reader]
    if not rows:
        raise InputError(f"{str(path)!r} holds a header but no rows; add at least one.")
    return rows


def _unique(names: list[str], what: str, path: Path) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{str(path)!r} gives {what} {name!r} twice; keep one line.")
        seen.add(name)


def _day(text: str, what: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{what} is {text!r}; write it as YYYY-MM-DD.") from None
