"""Statements that a provider can check alone, without the journal and without the other providers' lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from workingpapers.foundations.canonical_json import canonical
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.governance.data_royalties.journal import provider_account
from workingpapers.governance.data_royalties.money import PARTS
from workingpapers.governance.data_royalties.proofs import included, inclusion_proofs, salt, signed_by
from workingpapers.governance.data_royalties.state import State
from workingpapers.governance.data_royalties.store import Store

SCHEMA = "workingpapers/data_royalties/statement/1"


def statement_leaves(state: State, period: str, secret: str) -> list[dict[str, Any]]:
    """Return the leaf of every provider and currency with anything to state, in the order of the Merkle tree.

    Args:
        state: The books after the closes of `period` and before its seal.
        period: The month that is sealed.
        secret: Key of the salts, in hexadecimal; without it nobody can try out what a hidden leaf says.
    """
    policy = state.policy
    assert policy is not None, "a ledger opens with a policy"
    leaves = []
    for (provider, currency), position in sorted(state.positions.items()):
        carry_out = state.carries[currency].get(provider_account(provider), Fraction(0))
        if not (position.opening or position.moved or position.carry_in or carry_out):
            continue
        leaves.append(
            {
                "salt": salt(secret, provider, period, currency),
                "provider": provider,
                "period": period,
                "currency": currency,
                "pool_share": str(policy.pool_share),
                "rounding": policy.rounding,
                "lines": [
                    {
                        "work": line.work,
                        "billionths": str(line.billionths),
                        "share": str(line.share),
                        "due": str(line.due),
                    }
                    for line in position.lines
                ],
                "due": str(sum((line.due for line in position.lines), Fraction(0))),
                "carry_in": str(position.carry_in),
                "carry_out": str(carry_out),
                "opening": str(position.opening),
                "moved": {kind: str(amount) for kind, amount in sorted(position.moved.items())},
                "closing": str(position.closing),
            }
        )
    return leaves


def statements(store: Store, period: str, providers: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return provider -> statement of a sealed `period`, as JSON types.

    Args:
        store: The books.
        period: A sealed month.
        providers: Whose statements; all providers with anything to state by default.

    Raises:
        InputError: The period is not sealed, or a provider is not registered.
    """
    state, seal = State(), -1
    for entry in store.entries():
        draft = entry.draft()
        if draft.kind == "seal" and draft.period == period:
            seal = entry.seq
            break
        state.apply(entry.seq, draft)
    if seal < 0:
        sealed = ", ".join(state.sealed) or "none"
        raise InputError(f"Period {period!r} is not sealed in this ledger (sealed: {sealed}); close it first.")
    for provider in providers:
        if provider not in state.providers:
            hint = near_match(provider, state.providers) or "; check its id."
            raise InputError(f"There is no provider {provider!r} in this ledger{hint}")
    leaves = statement_leaves(state, period, store.meta("salt_secret"))
    paths = inclusion_proofs([canonical(leaf) for leaf in leaves])
    body, signature = next((body, signature) for place, body, signature in store.checkpoints() if place == seal)
    wanted = providers or sorted({leaf["provider"] for leaf in leaves})
    return {
        provider: {
            "schema": SCHEMA,
            "provider": provider,
            "name": state.providers[provider].name,
            "period": period,
            "leaves": [
                {"leaf": leaf, "index": index, "path": paths[index]}
                for index, leaf in enumerate(leaves)
                if leaf["provider"] == provider
            ],
            "checkpoint": json.loads(body),
            "signature": signature,
            "public_key": state.public_key,
        }
        for provider in wanted
    }


def check_statement(
    statement: Mapping[str, Any], public_key: str = "", previous: Mapping[str, Any] | None = None
) -> list[str]:
    """Return what is wrong with a statement, by arithmetic, hashes and signature alone; an empty list is good.

    Args:
        statement: What :func:`statements` gave for the provider.
        public_key: The operator's key as the provider knows it from elsewhere (the contract); 64 hexadecimal digits.
        previous: The provider's statement before this one: balances and fractions must go on from it.

    Raises:
        InputError: It is not a statement of this schema.
    """
    if statement.get("schema") != SCHEMA:
        raise InputError(f"The file's schema is {statement.get('schema')!r}; a statement has {SCHEMA!r}.")
    try:
        return _faults(statement, public_key, previous)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        return [f"the statement is malformed ({type(error).__name__}: {error})"]


def _faults(statement: Mapping[str, Any], public_key: str, previous: Mapping[str, Any] | None) -> list[str]:
    faults = []
    checkpoint = statement["checkpoint"]
    if public_key and public_key.lower() != statement["public_key"]:
        faults.append("it names another public key than the one you gave")
    if not signed_by(public_key or statement["public_key"], checkpoint, statement["signature"]):
        faults.append("the signature of the checkpoint is not the operator's")
    if checkpoint["period"] != statement["period"]:
        faults.append(f"the checkpoint is that of {checkpoint['period']}, not of {statement['period']}")
    for item in statement["leaves"]:
        leaf = item["leaf"]
        name = f"{leaf['currency']}: "
        if (leaf["provider"], leaf["period"]) != (statement["provider"], statement["period"]):
            faults.append(f"{name}the lines are those of {leaf['provider']} in {leaf['period']}")
        if not included(canonical(leaf), item["index"], checkpoint["leaves"], item["path"], checkpoint["root"]):
            faults.append(f"{name}the lines are not under the signed root")
        faults += [name + fault for fault in _arithmetic(leaf)]
    if previous is not None:
        faults += _continuity(statement, previous)
    return faults


def _arithmetic(leaf: Mapping[str, Any]) -> list[str]:
    faults = []
    share = Fraction(leaf["pool_share"])
    dues = [Fraction(line["due"]) for line in leaf["lines"]]
    for line, due in zip(leaf["lines"], dues, strict=True):
        if due != share * Fraction(int(line["billionths"]), PARTS) * Fraction(line["share"]):
            faults.append(f"the due of work {line['work']} is not accrued base x pool share x work share")
    due, booked = Fraction(leaf["due"]), int(leaf["moved"].get("close", "0"))
    carry_in, carry_out = Fraction(leaf["carry_in"]), Fraction(leaf["carry_out"])
    if sum(dues, Fraction(0)) != due:
        faults.append("the dues of the works do not sum to the due of the period")
    if leaf["rounding"] == "carry" and (carry_in + due != booked + carry_out or not 0 <= carry_out < 1):
        faults.append("carried in + due is not booked + carried out")
    if leaf["rounding"] == "largest_remainder" and (abs(booked - due) >= 1 or carry_in != carry_out):
        faults.append("the booked amount is a minor unit or more from the due")
    if int(leaf["opening"]) + sum(map(int, leaf["moved"].values())) != int(leaf["closing"]):
        faults.append("opening balance + movements is not the closing balance")
    return faults


def _continuity(statement: Mapping[str, Any], previous: Mapping[str, Any]) -> list[str]:
    faults = []
    if previous["provider"] != statement["provider"] or previous["period"] >= statement["period"]:
        faults.append("the earlier statement is not one of this provider for an earlier period")
    if previous["checkpoint"]["ledger"] != statement["checkpoint"]["ledger"]:
        faults.append("the two statements come from different ledgers")
    now = {item["leaf"]["currency"]: item["leaf"] for item in statement["leaves"]}
    before = {item["leaf"]["currency"]: item["leaf"] for item in previous["leaves"]}
    for currency in sorted({*now, *before}):
        opening = (now[currency]["opening"], now[currency]["carry_in"]) if currency in now else ("0", "0")
        closing = (before[currency]["closing"], before[currency]["carry_out"]) if currency in before else ("0", "0")
        if opening != closing:
            faults.append(
                f"{currency}: it opens at {opening[0]} + {opening[1]}, "
                f"the one before closed at {closing[0]} + {closing[1]}"
            )
    return faults
