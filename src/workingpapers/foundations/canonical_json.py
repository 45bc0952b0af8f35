"""Canonical JSON: one byte string for one value, and a reader that refuses what has two readings."""

from __future__ import annotations

import json
from typing import Any

from workingpapers.foundations.errors import InputError


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 (JCS) form of a JSON value, the bytes that are hashed and signed.

    Args:
        value: Mappings with string keys, sequences, strings, booleans, None, integers up to 2**53 - 1 in absolute
            value, finite floats.

    Returns:
        UTF-8 bytes: keys sorted by UTF-16 code units, no white space, numbers as ECMAScript prints them.

    Raises:
        InputError: A number is NaN, infinite or beyond 2**53 - 1, or a value is no JSON value.

    References:
        RFC 8785, JSON Canonicalization Scheme.
    """
    import rfc8785

    try:
        return bytes(rfc8785.dumps(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"A declared value has no canonical JSON form ({reason}); use strings for what JSON cannot hold."
        ) from None


def parse_strict(raw: bytes | str, name: str) -> Any:
    """Parse JSON that has exactly one reading.

    Args:
        raw: The text of the file, UTF-8 when bytes.
        name: How messages call it.

    Returns:
        The value.

    Raises:
        InputError: The text is no JSON, is not UTF-8, repeats a key in one object (readers disagree which one counts)
            or holds NaN or Infinity.
    """
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8 text; save it as UTF-8.") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply to be read; flatten it.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name} is not JSON (line {error.lineno}: {error.msg}); correct the file.") from None
    except _Ambiguous as error:
        raise InputError(f"{name} {error}.") from None


class _Ambiguous(ValueError):
    """JSON that two readers may read differently."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Ambiguous(f"repeats the key {key!r} in one object; keep one of them")
        found[key] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise _Ambiguous(f"holds the number {text}, which JSON does not have; use null or a string")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Ambiguous(f"holds the number {text}, which is too large for a float; use a string")
    return value
