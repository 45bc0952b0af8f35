"""The claims: training on ranks, exact laws, a changed model, and a simulated cluster with its controls."""

from __future__ import annotations

from functools import partial

from workingpapers.posttraining.bubblespec import experiments as arms
from workingpapers.replication.claim import Claim, Size

NO_FIGURES = "about 50 % fewer decoding steps, up to 1.8 times the rollout throughput, synchronous semantics (abstract)"
METHOD = "BubbleSpec"

CLAIM = Claim(
    name="headline",
    statement="In GRPO on four ranks the slowest rank needs at least 15 % fewer passes when idle ranks draft the next "
    "step's prompts, with weights at the end that are the same bit for bit.",
    metric="share",
    direction="lower",
    arms={
        METHOD: partial(arms.training, order="pooled"),
        "own prompts only": partial(arms.training, order="own"),
        "drafts with independent noise": partial(arms.training, order="pooled", coupled=False),
    },
    method=METHOD,
    against=0.85,
    sizes={
        "smallest": Size(2, {"ranks": 2, "steps": 3, "prompts": 1, "samples": 2, "width": 32, "base_steps": 150}),
        "small": Size(5, {"ranks": 4, "steps": 20, "prompts": 2, "samples": 4, "width": 64, "base_steps": 1600}),
        "full": Size(10, {"ranks": 8, "steps": 60, "prompts": 2, "samples": 8, "width": 64, "base_steps": 1600}),
    },
    unit="passes of the slowest rank over those without drafts",
    paper_result=NO_FIGURES,
    notes="Pointer chasing with answers of 3 to 23 tokens, a model of two layers in float64; ranks run in turn, and a "
    "window lasts as many passes as the slowest rank still needs. The first step has no drafts and is left out of the "
    "share; first_step is 1 by itself. A run whose weights differ in one bit counts as no saving. passes is of all "
    "ranks together. A rank that drafts only its own prompts helps the ranks that were fast before, not the slow ones.",
)

LAWS = Claim(
    name="laws",
    statement="By enumeration, matching writes a law nearer to the model's, by 0.02 in total variation, than going on "
    "at a refused token without its residual law, and than rejection with the better of two drafts.",
    metric="distance",
    direction="lower",
    arms={
        "matching": partial(arms.laws, rule="match"),
        "matching, better of two drafts": partial(arms.laws, rule="match", picked=True),
        "rejection": partial(arms.laws, rule="rejection"),
        "cut and go on": partial(arms.laws, rule="cut"),
        "rejection, better of two drafts": partial(arms.laws, rule="rejection", picked=True),
    },
    method="matching",
    against=("cut and go on", "rejection, better of two drafts"),
    margin=0.02,
    sizes={
        "smallest": Size(2, {"vocabulary": 3, "depth": 2, "tables": 4}),
        "small": Size(5, {"vocabulary": 3, "depth": 3, "tables": 20}),
        "full": Size(10, {"vocabulary": 4, "depth": 3, "tables": 50}),
    },
    unit="total variation",
    paper_result="exact (statement); cut and go on is what SPEC-RL does",
    notes="Random next-token laws with an end mark, all drafts and all branches. The exact rules are off by rounding "
    "alone (some 1e-17).",
)

CHANGED = Claim(
    name="changed_model",
    statement="After every weight of SmolLM2-135M was changed by 1 % of its tensor's deviation, drafts written before "
    "with the rollouts' own noise take at least a quarter fewer passes than drafts with independent noise.",
    metric="passes",
    direction="lower",
    arms={
        "own noise": partial(arms.changed, drafting="coupled", change=0.01),
        "independent noise": partial(arms.changed, drafting="independent", change=0.01),
        "own noise, change 0.1 %": partial(arms.changed, drafting="coupled", change=0.001),
        "own noise, change 3 %": partial(arms.changed, drafting="coupled", change=0.03),
    },
    method="own noise",
    against="independent noise",
    margin=0.25,
    effect="ratio",
    sizes={
        "smallest": Size(2, {"model": "tiny", "samples": 2, "most": 20, "ahead": 8}),
        "small": Size(3, {"model": "smollm2", "samples": 2, "most": 48, "ahead": 8}),
        "full": Size(10, {"model": "smollm2", "samples": 8, "most": 200, "ahead": 8}),
    },
    unit="passes over those without drafts",
    paper_result="none on this measure",
    notes="Eight openings of sentences at temperature 1. different counts sequences that are not those written without "
    "drafts, token for token; it must be 0. An update of GRPO moves weights by far less than 1 %. critical is the "
    "share of passes until the last sequence is done. The smallest size runs on a model that chases pointers.",
)

CLUSTER = Claim(
    name="cluster",
    statement="In a simulation of eight ranks with lengths of a heavy tail, drafts of which 85 % of the tokens stand "
    "make rollouts at least 1.15 times as fast.",
    metric="speedup",
    direction="higher",
    arms={
        "85 % stand": partial(arms.cluster),
        "95 % stand, 16 ahead": partial(arms.cluster, stand=0.95, resync=0.5, ahead=16),
        "own prompts and drafts only": partial(arms.cluster, order="own", siblings=False),
        "no way back": partial(arms.cluster, resync=0.0),
        "none stand": partial(arms.cluster, stand=0.0),
        "no tail": partial(arms.cluster, spread=0.015),
    },
    method="85 % stand",
    against=1.15,
    sizes={
        "smallest": Size(2, {"ranks": 4, "steps": 3}),
        "small": Size(5, {"ranks": 8, "steps": 10}),
        "full": Size(20, {"ranks": 64, "steps": 20}),
    },
    unit="simulated time without drafts over time with them",
    paper_result="up to 1.8 times (abstract)",
    notes="Simulated, not measured: two prompts a rank, eight samples each, saturation at 64 tokens. Where none "
    "stand, no way back is found or no tail leaves a window, nothing is gained: the three controls. 1.8 times needs "
    "more acceptance than 95 % here. A prompt's samples may use each other's drafts with the same acceptance, which "
    "is generous. idle is the share of rank time in windows without drafts, extra the draft tokens written for each "
    "token.",
)

CLAIMS = (CLAIM, LAWS, CHANGED, CLUSTER)
