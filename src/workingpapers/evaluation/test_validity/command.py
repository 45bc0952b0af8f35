"""``papers run test_validity``: says whether the scores of people and of AI systems may be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.progress import Progress, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

if TYPE_CHECKING:
    from workingpapers.evaluation.test_validity.judging import ValidityReport


def run(
    human: InputFile,
    ai: InputFile,
    *,
    subject: str,
    items: InputFile | None = None,
    occasion: str | None = None,
    lowest: float | None = None,
    highest: float | None = None,
    model: Literal["auto", "factor", "response"] = "auto",
    reliability: Annotated[float, Between(0, 1)] = 0.7,
    significance: Annotated[float, Between(0, 0.5, open_low=True)] = 0.01,
    seed: int = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Examine a test on a human and an AI sample and say which claims about its scores the answers allow.

    Args:
        human: Table of people's answers: a row for each person, a numeric column for each item.
        ai: Table of AI answers with the same item columns.
        subject: Column of the AI table that names the independent subject (the model) behind a row, or "rows" where
            every row is a subject of its own.
        items: Table of the items: item, and as known scale, key (1 or -1), seen (1 where public before training).
        occasion: Column of the AI table with the prompt wording or occasion; subjects are then split from wordings.
        lowest: Lowest possible answer; the lowest that occurs by default.
        highest: Highest possible answer; the highest that occurs by default.
        model: factor takes answers as numbers, response as categories; auto takes up to four values as categories.
        reliability: Lowest alpha of a reliable score.
        significance: Level of the tests of structure and invariance.
        seed: Decides which row stands for a subject, and the random data of parallel analysis.
        report: HTML report with figures.
    """
    from workingpapers.evaluation.test_validity.judging import judge
    from workingpapers.evaluation.test_validity.rules import Rules
    from workingpapers.evaluation.test_validity.tables import read_study

    study = read_study(
        human, ai, items, subject=subject, occasion=occasion, bounds=(lowest, highest), model=model, seed=seed
    )
    rules = Rules(reliability=reliability, significance=significance)
    found = judge(study, rules=rules, seed=seed, progress=progress)
    tables = tables_of(found)
    figures: tuple[Any, ...] = ()
    files = []
    if report is not None:
        from workingpapers.evaluation.test_validity.pictures import draw_all
        from workingpapers.foundations.report import heading, paragraph, write_report

        figures = draw_all(found)
        permissions, *others = tables
        notes = [paragraph(note, "soft") for note in study.notes]
        files.append(
            write_report(
                report,
                "May these scores be compared?",
                [paragraph(_summary(found)), permissions, *notes, heading("What it rests on"), *figures, *others],
            )
        )
    return Outcome(_summary(found), tables, figures, files, _data(found))


def tables_of(found: ValidityReport) -> tuple[Table, ...]:
    """Return the tables of a report, the permitted claims first.

    Args:
        found: What was found.
    """
    study = found.study
    tables = [
        Table(
            ("level", "claim", "sample", "allowed", "why"),
            [(each.level, each.claim, each.population, each.verdict, each.reason) for each in found.permissions],
            "What the answers allow to claim",
            f"{len(study.human)} human and {len(study.ai)} AI subjects, {len(study.names)} items taken as "
            f"{study.kind}. L0, the score on these items for these subjects, is always allowed.",
        ),
        Table(
            ("scale", "sample", "alpha", "from", "to", "omega", "error of the sum"),
            [
                (scale, name, value.alpha, value.low, value.high, value.omega, value.standard_error)
                for (scale, name), value in found.reliability.items()
            ],
            "Reliability",
            "Feldt's 95 % interval.",
        ),
        _invariance(found),
        _means(found),
        Table(
            ("item", "scale", "effect", "p", "adjusted", "uniform", "non-uniform", "grade", "differs"),
            [
                (
                    study.names[test.item], study.scales[test.item], round(test.effect, 4), _p(test.p_value),
                    _p(test.adjusted), _p(test.uniform), _p(test.nonuniform), test.grade, test.flagged,
                )
                for test in found.items
            ],
            "Items at equal scores",
            ("Effect: Mantel-Haenszel delta, negative where the item is harder for the AI; A is negligible, C large. "
             if study.kind == "binary"
             else "Effect: gain of R² by the population and its interaction; A under .035, B under .07, C above. ")
            + "p-values: of both kinds of difference, adjusted (Benjamini-Hochberg), of each kind. "
            f"A t-test without matching flags {int(found.mean_flags.sum())} of {len(study.names)} items.",
        ),
        Table(
            ("sample", "factors", "acquiescence", "its spread", "half-scales r", "agree to both", "extreme"),
            [
                (
                    name, found.parallel[name].factors, style.acquiescence, style.acquiescence_spread,
                    style.half_scales, style.agree_both, style.extreme,
                )
                for name, style in found.styles.items()
            ],
            "Factors and response styles",
            "Congruence of the exploratory factors: "
            + ", ".join(f"{value:.2f}" for value in found.congruence)
            + " (.95: equal, .85: similar). Half-scales: unturned, negative where answers follow content.",
        ),
    ]  # fmt: skip
    if found.components:
        tables.append(_generalisability(found))
    if found.contamination is not None:
        gain, error = found.contamination
        tables.append(
            Table(
                ("AI advantage on seen items over others", "standard error", "t"),
                [(gain, error, gain / error if error else None)],
                "Items that were public before training",
                "In points of the answer scale, items as units; a clear gain speaks of memory, not of the trait.",
            )
        )
    return tuple(tables)


def _invariance(found: ValidityReport) -> Table:
    rows = [
        (
            step.level if scale == "all scales" else f"{scale}: {step.level}",
            step.chi_square if step.difference is None else step.difference,
            step.degrees if step.difference is None else step.difference_degrees,
            _p(step.p_value), step.cfi, step.rmsea,
            ", ".join(_names(found, scale, step.released)) or None, step.accepted,
        )
        for scale, ladder in found.ladders.items()
        for step in ladder.steps
    ]  # fmt: skip
    few = found.study.kind != "continuous"
    return Table(
        ("step", "χ²", "df", "p", "CFI", "RMSEA", "released", "stands"),
        rows,
        "Measurement invariance, human against AI",
        "Configural: robust χ² of the factor model; the other steps: "
        + ("likelihood ratio of response models, RMSEA of this difference." if few else "scaled difference of χ².")
        if rows
        else "Not examined: the data do not suffice.",
    )


def _p(value: float) -> str | None:
    if value != value:
        return None
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _means(found: ValidityReport) -> Table:
    latent: dict[str, tuple[float, float]] = {}
    for name, ladder in found.ladders.items():
        scales = found.study.scale_names if name == "all scales" else (name,)
        for scale, gap, error in zip(scales, ladder.latent_difference, ladder.latent_error, strict=True):
            latent[scale] = (float(gap), float(error))
    nothing = (float("nan"), float("nan"))
    return Table(
        ("scale", "difference of means (d)", "p", "difference of latent means", "standard error"),
        [(gap.scale, gap.standardised, _p(gap.p_value), *latent.get(gap.scale, nothing)) for gap in found.gaps],
        "AI minus human",
        "d is what a plain comparison reports, whether it means anything or not; the latent difference, in human "
        "standard deviations, is given only where invariance allows it.",
    )


def _generalisability(found: ValidityReport) -> Table:
    from workingpapers.evaluation.test_validity.generalizability import coefficients

    rows = []
    for scale, components in found.components.items():
        items = found.study.scales.count(scale)
        shares = [components.share(name) for name in ("p", "i", "o", "pi", "po", "io", "pio")]
        rows.append((scale, *shares, *(coefficients(components, items, occasions)[0] for occasions in (1, 5))))
    return Table(
        ("scale", "p", "i", "o", "pi", "po", "io", "pio", "one occasion", "five"),
        rows,
        "Generalisability of the AI scores",
        "Shares of the variance: p subject, i item, o occasion, and their interactions; pio holds the error. Last: the "
        "coefficient for ranking subjects measured on one occasion and on five.",
    )


def _names(found: ValidityReport, scale: str, released: tuple[int, ...]) -> list[str]:
    study = found.study
    own = [name for name, mine in zip(study.names, study.scales, strict=True) if scale in ("all scales", mine)]
    return [own[j] for j in released]


def _summary(found: ValidityReport) -> str:
    verdict = found.verdict("L3", "both")
    reason = next(each.reason for each in found.permissions if each.level == "L3")
    flagged = sum(test.flagged for test in found.items)
    start = {
        "yes": "Scores of the two samples may be compared. ",
        "no": "Scores of the two samples may not be compared. ",
        "insufficient data": "The data do not suffice to say whether scores may be compared. ",
    }[verdict]
    if any(ladder.reached == "partial scalar" for ladder in found.ladders.values()) and verdict == "yes":
        start = ""
    blind = sum(not test.judged for test in found.items)
    if blind:
        return f"{start}{reason} {blind} items cannot be judged: their scale is too unreliable to match subjects on."
    return f"{start}{reason} {flagged} of {len(found.items)} items differ at equal scores."


def _data(found: ValidityReport) -> dict[str, Any]:
    import math

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "permissions": [
            {"level": each.level, "population": each.population, "verdict": each.verdict, "reason": each.reason}
            for each in found.permissions
        ],
        "reliability": {
            f"{scale}/{name}": {"alpha": value.alpha, "low": value.low, "high": value.high, "omega": plain(value.omega)}
            for (scale, name), value in found.reliability.items()
        },
        "invariance": {scale: ladder.reached for scale, ladder in found.ladders.items()},
        "items": {
            found.study.names[test.item]: {
                "effect": plain(test.effect), "p": plain(test.p_value), "grade": test.grade, "differs": test.flagged
            }
            for test in found.items
        },
        "factors": {name: analysis.factors for name, analysis in found.parallel.items()},
        "notes": list(found.study.notes),
    }  # fmt: skip
