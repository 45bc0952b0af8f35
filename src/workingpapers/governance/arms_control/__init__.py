"""Tools for the arms control of military AI: stability, verifiable declarations, inspections, escalation.

Use it to analyse the stability of a balance (:mod:`.richardson`, :mod:`.cooperation`), to commit to models, chips and
runs and open them one by one (:mod:`.declaration`, :mod:`.evidence`), to verify declarations, evidence and training
transcripts with nothing but public keys (:mod:`.verifier`, :mod:`.transcript`), to plan inspections
(:mod:`.inspection`, :mod:`.inspection_game`) and to judge escalation logs (:mod:`.escalation`, :mod:`.oversight`).

Do not use it to conclude that a declaration is complete, that a model behaves as described, or that a balance of
states is safe: hashes prove identity, samples bound what they can miss among declared items, and stability is that of
a model.

Reference: Fujimoto and Benz, Position: AI Researchers Must Help Lead Arms Control to Mitigate Military AI Risks,
arXiv 2606.11533. The paper asks for such tools and gives none; the methods are standard ones, named where they stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.governance.arms_control.challenge import check_challenge, combine, commit, sample
    from workingpapers.governance.arms_control.compute import account
    from workingpapers.governance.arms_control.cooperation import Dilemma, critical_detection, critical_discount
    from workingpapers.governance.arms_control.declaration import Book, Head, declare, sign_declaration
    from workingpapers.governance.arms_control.envelope import Refused, open_envelope, sign
    from workingpapers.governance.arms_control.escalation import compare_models, read_log, score_runs
    from workingpapers.governance.arms_control.evidence import disclose, make_evidence, prove_absent, sign_evidence
    from workingpapers.governance.arms_control.inspection import detection_probability, plan_strata, sample_size
    from workingpapers.governance.arms_control.openssf import model_signature, read_manifest
    from workingpapers.governance.arms_control.oversight import fading_cusum, influence, two_phase_regression
    from workingpapers.governance.arms_control.richardson import Balance, critical_reactions, equilibrium, margin
    from workingpapers.governance.arms_control.transcript import Transcript, record, verify_segments
    from workingpapers.governance.arms_control.verifier import check_declaration, check_evidence, check_succession

_HOMES = {
    "challenge": ("check_challenge", "combine", "commit", "sample"),
    "compute": ("account",),
    "cooperation": ("Dilemma", "critical_detection", "critical_discount"),
    "declaration": ("Book", "Head", "declare", "sign_declaration"),
    "envelope": ("Refused", "open_envelope", "sign"),
    "escalation": ("compare_models", "read_log", "score_runs"),
    "evidence": ("disclose", "make_evidence", "prove_absent", "sign_evidence"),
    "inspection": ("detection_probability", "plan_strata", "sample_size"),
    "openssf": ("model_signature", "read_manifest"),
    "oversight": ("fading_cusum", "influence", "two_phase_regression"),
    "richardson": ("Balance", "critical_reactions", "equilibrium", "margin"),
    "transcript": ("Transcript", "record", "verify_segments"),
    "verifier": ("check_declaration", "check_evidence", "check_succession"),
}
__all__ = [
    "Balance",
    "Book",
    "Dilemma",
    "Head",
    "Refused",
    "Transcript",
    "account",
    "check_challenge",
    "check_declaration",
    "check_evidence",
    "check_succession",
    "combine",
    "commit",
    "compare_models",
    "critical_detection",
    "critical_discount",
    "critical_reactions",
    "declare",
    "detection_probability",
    "disclose",
    "equilibrium",
    "fading_cusum",
    "influence",
    "make_evidence",
    "margin",
    "model_signature",
    "open_envelope",
    "plan_strata",
    "prove_absent",
    "read_log",
    "read_manifest",
    "record",
    "sample",
    "sample_size",
    "score_runs",
    "sign",
    "sign_declaration",
    "sign_evidence",
    "two_phase_regression",
    "verify_segments",
]

__getattr__ = lazy_names(__name__, _HOMES)
