"""Joint challenges: nobody can steer, copy, swap or withhold; the sample is uniform."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from workingpapers.foundations.errors import InputError
from workingpapers.governance.arms_control.challenge import (
    challenge_digest,
    check_challenge,
    combine,
    commit,
    sample,
)
from workingpapers.governance.arms_control.envelope import Refused

DIGEST = "ab" * 32
SEEDS = {"inspector": bytes(range(32)), "lab": bytes(range(32, 64))}


def opening(party: str, **changes: Any) -> dict[str, Any]:
    return {"party": party, "declaration": DIGEST, "count": 5, "seed": SEEDS[party].hex(), **changes}


def commitments() -> list[dict[str, Any]]:
    return [commit(party, seed, DIGEST, 5) for party, seed in SEEDS.items()]


def test_seed_is_the_hash_of_both_seeds_in_the_order_of_names() -> None:
    challenge = combine(commitments()[::-1], [opening("lab"), opening("inspector")])
    assert check_challenge(challenge) == hashlib.sha256(SEEDS["inspector"] + SEEDS["lab"]).digest()
    assert challenge == combine(commitments(), [opening("inspector"), opening("lab")])
    assert len(challenge_digest(challenge)) == 64


def test_revealing_another_seed_than_committed_is_rejected() -> None:
    with pytest.raises(InputError, match="seed of 'lab' is not the one that was committed"):
        combine(commitments(), [opening("inspector"), opening("lab", seed="00" * 32)])
    challenge = combine(commitments(), [opening("inspector"), opening("lab")])
    challenge["openings"][1]["seed"] = "00" * 32
    with pytest.raises(Refused, match="not the one that was committed"):
        check_challenge(challenge)


def test_a_commitment_cannot_be_copied_moved_or_resized() -> None:
    seed = SEEDS["lab"]
    base = commit("lab", seed, DIGEST, 5)["commitment"]
    others = [commit("inspector", seed, DIGEST, 5), commit("lab", seed, "cd" * 32, 5), commit("lab", seed, DIGEST, 6)]
    assert base not in [other["commitment"] for other in others]
    same = [commit(party, seed, DIGEST, 5) for party in ("a", "b")]
    openings = [{"party": party, "declaration": DIGEST, "count": 5, "seed": seed.hex()} for party in ("a", "b")]
    with pytest.raises(InputError, match="the same seed"):
        combine(same, openings)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": 6}, "seed of|not the one"),
        ({"declaration": "cd" * 32}, "not the one"),
        ({"version": 2}, "malformed"),
        ({"openings": []}, "at least two parties"),
        ({"count": True}, "sample size"),
        ({"declaration": "x"}, "names no declaration"),
    ],
)
def test_changed_challenges_are_refused(change: dict[str, Any], reason: str) -> None:
    challenge = combine(commitments(), [opening("inspector"), opening("lab")])
    with pytest.raises(Refused, match=reason):
        check_challenge({**challenge, **change})


def test_order_of_parties_and_missing_parties() -> None:
    challenge = combine(commitments(), [opening("inspector"), opening("lab")])
    with pytest.raises(Refused, match="out of order"):
        check_challenge({**challenge, "openings": challenge["openings"][::-1]})
    with pytest.raises(Refused, match="two parties"):
        check_challenge({**challenge, "openings": challenge["openings"][:1]})
    with pytest.raises(InputError, match=r"\['lab'\] gave a commitment or an opening"):
        combine(commitments(), [opening("inspector")])
    with pytest.raises(InputError, match="another declaration or sample size"):
        combine(commitments(), [opening("inspector"), opening("lab", count=6)])
    with pytest.raises(InputError, match="no commitments"):
        combine([], [])
    with pytest.raises(InputError, match="32 random bytes"):
        commit("lab", b"short", DIGEST, 5)
    with pytest.raises(InputError, match="at least one item"):
        commit("lab", bytes(32), DIGEST, 0)


def test_sample_is_a_prefix_of_one_permutation() -> None:
    seed = bytes(32)
    whole = sample(seed, 50, 50)
    assert sorted(whole) == list(range(50))
    for count in (0, 1, 7, 49):
        assert sample(seed, 50, count) == whole[:count]
    assert sample(b"\x01" + bytes(31), 50, 50) != whole
    with pytest.raises(InputError, match="51"):
        sample(seed, 50, 51)


def test_sample_follows_its_definition() -> None:
    # Written out: a plain Fisher-Yates over a list with the same stream.
    seed, size = b"seed" * 8, 30
    order = list(range(size))
    for place in range(size):
        block = hashlib.sha256(seed + place.to_bytes(8, "big")).digest()
        chosen = place + int.from_bytes(block, "big") % (size - place)
        order[place], order[chosen] = order[chosen], order[place]
    assert sample(seed, size, size) == order


def test_sample_is_uniform_over_ordered_pairs() -> None:
    """Chi-square over 100,000 draws of 2 of 6; the seeds are fixed, so the p-value is too."""
    counts = Counter(tuple(sample(hashlib.sha256(b"%d" % k).digest(), 6, 2)) for k in range(100_000))
    assert len(counts) == 30
    assert chisquare(list(counts.values())).pvalue > 1e-4
    firsts = np.bincount([pair[0] for pair in counts.elements()], minlength=6)
    assert chisquare(firsts).pvalue > 1e-4
