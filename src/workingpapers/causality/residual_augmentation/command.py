"""``papers run residual_augmentation``: a table in, the same table with counterfactual rows out, if they help."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import column, read_table, whole_file
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile

if TYPE_CHECKING:
    import pandas as pd

Learner = Literal["forest", "boosting", "mlp", "ridge"]
ADDED_COLUMNS = ("weight", "source_row", "augmented")
MANY_LEVELS = 50


def run(
    data: InputFile,
    *,
    target: str,
    out: OutputFile,
    estimator: Learner = "forest",
    residuals: Literal["oof", "insample"] = "oof",
    screen: Literal["pearson+pc", "pc", "dcor", "none"] = "pearson+pc",
    p: Annotated[float, Between(0, 2)] = 0.5,
    k: Annotated[int, Between(1)] = 5,
    factor: Annotated[float, Between(0, 10, open_low=True)] = 1.0,
    weight: Annotated[float, Between(0, 1, open_low=True)] = 1.0,
    tune: bool = False,
    perturb: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    gate: Literal["wilcoxon", "none"] = "wilcoxon",
    folds: Annotated[int, Between(2, 50)] = 10,
    gate_alpha: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 0.05,
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Add counterfactual rows to a regression table if a paired test on untouched rows says that they help.

    Args:
        data: Table with a header line (CSV, TSV or Parquet).
        target: Numeric column to predict; rows where it is empty are left out.
        out: Table to write (by ending: .csv, .tsv or .parquet): the real rows, the new rows below them, and the columns
            weight, source_row (the row of the input, from 0) and augmented.
        estimator: Learner that labels the new rows and is tested with them.
        residuals: Take residuals out of fold, or in sample as published.
        screen: Test for the columns that the residual does not depend on.
        p: Largest relative move of a value from its column's mean.
        k: Largest number of columns that move.
        factor: New rows per real row.
        weight: Sample weight of a new row.
        tune: Choose p, k, factor and weight by a small search inside every fold; several times slower.
        perturb: Columns that may move; without it, numeric columns that are not all whole numbers.
        ignore: Columns that are not features, such as row names.
        gate: Test on untouched rows, or none to add the rows in any case.
        folds: Folds of the test.
        gate_alpha: Level of the test.
        seed: Seed of everything random.
        report: HTML report to write.
        progress: Callback for the share done.

    Returns:
        The decision, the errors before and after, and what each column did.
    """
    from sklearn.exceptions import ConvergenceWarning

    from workingpapers.causality.residual_augmentation import reporting
    from workingpapers.causality.residual_augmentation.regressor import CRDARegressor

    progress(0.0, "reading the table")
    frame = read_table(data)
    features, values = _features(frame, data, target, ignore)
    _check_added(frame, data)
    movable = _movable(features, perturb, data)
    if len(values) < 3 * folds and gate != "none":
        raise InputError(
            f"{str(data)!r} has {len(values)} rows with a target, too few for {folds} folds; "
            f"use --folds {max(2, len(values) // 3)} or fewer."
        )
    options: dict[str, Any] = dict.fromkeys(("p", "k", "factor", "weight"), "auto") if tune else {}
    model = CRDARegressor(
        build_learner(features, estimator, seed),
        residuals=residuals,
        screen=None if screen == "none" else screen,
        **(options or {"p": p, "k": k, "factor": factor, "weight": weight}),
        gate=None if gate == "none" else gate,
        cv=folds,
        gate_alpha=gate_alpha,
        columns=movable,
        stop_early=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # networks stop after a fixed number of epochs on purpose
        model.fit(features, values, progress=part(progress, 0.02, 0.9))
        made = model.augment(features, values) if model.decision_ == "augmented" else None
    progress(0.95, "writing")
    moved = [features.columns[index] for index in model.selected_]
    table = augmented_table(frame.loc[features.index], target, moved, made)
    write_table(table, out)
    files = [Path(out)]
    added = int(table["augmented"].sum())
    summary = _summary(model, len(frame), len(features), added, out, target)
    tables = reporting.tables(model, target)
    figures = reporting.figures(model, target)
    if report is not None:
        files.append(reporting.write(report, Path(data).name, target, summary, tables, figures))
    progress(1.0, "done")
    return Outcome(summary, tables, figures, files, reporting.numbers(model, len(features), added))


def build_learner(features: pd.DataFrame, estimator: Learner, seed: int) -> Any:
    """Return a pipeline from the raw table to predictions: gaps filled, text as one-hot columns, then the learner.

    Args:
        features: Raw features, shape (n, d).
        estimator: Name of the learner.
        seed: Seed of the learner.

    Returns:
        An unfitted pipeline; networks and ridge see standardised features, and networks a standardised target.
    """
    import pandas as pd
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [
        name
        for name in features
        if pd.api.types.is_numeric_dtype(features[name]) and not pd.api.types.is_bool_dtype(features[name])
    ]
    other = [name for name in features if name not in numeric]
    encode = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MANY_LEVELS, sparse_output=False)
    prepare = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
            ("text", make_pipeline(SimpleImputer(strategy="most_frequent"), encode), other),
        ]
    )
    learners = {
        "forest": RandomForestRegressor(100, min_samples_leaf=2, random_state=seed),
        "boosting": GradientBoostingRegressor(random_state=seed),
        "mlp": TransformedTargetRegressor(
            MLPRegressor(hidden_layer_sizes=(32, 16), batch_size=32, max_iter=100, alpha=1e-2, random_state=seed),
            transformer=StandardScaler(),
        ),
        "ridge": Ridge(),
    }
    return make_pipeline(prepare, learners[estimator])


def augmented_table(frame: pd.DataFrame, target: str, moved: list[str], made: Any) -> pd.DataFrame:
    """Return the table to write: all input columns, real rows first, and the columns weight, source_row, augmented.

    Args:
        frame: Input rows that have a target, all columns, index = row of the input.
        target: Name of the target.
        moved: Names of the columns that were perturbed.
        made: The augmented set, or None for the real rows alone.

    Returns:
        Shape (n + m, columns + 3); columns that do not move are copied from the source row.
    """
    import numpy as np

    source = np.arange(len(frame)) if made is None else made.source_index
    table = frame.iloc[source].reset_index(drop=True)
    if made is not None:
        generated = np.flatnonzero(made.augmented)
        for name in moved:
            fresh = made.X[name].to_numpy()[generated]
            table[name] = np.concatenate([frame[name].to_numpy(), fresh])
        real = frame[target].to_numpy()
        table[target] = np.concatenate([real, made.y[generated]])
    table["weight"] = 1.0 if made is None else made.sample_weight
    table["source_row"] = frame.index.to_numpy()[source]
    table["augmented"] = False if made is None else made.augmented
    return table


def write_table(table: pd.DataFrame, out: Path) -> None:
    """Write `table` to `out`, whole or not at all: Parquet or TSV by ending, else CSV."""
    if out.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError(f"{str(out)!r} needs the package pyarrow to be written; name a .csv file.") from None
        with whole_file(out, "wb") as stream:
            table.to_parquet(stream, index=False)
        return
    with whole_file(out, newline="") as stream:
        table.to_csv(stream, index=False, sep="\t" if out.suffix.lower() == ".tsv" else ",", lineterminator="\n")


def _features(frame: pd.DataFrame, data: Path, target: str, ignore: tuple[str, ...]) -> tuple[pd.DataFrame, Any]:
    """Return the features and the target of the rows that have one; the index tells the row of the input."""
    import numpy as np
    import pandas as pd

    values = column(frame, target, data)
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        example = next((str(value) for value in values.dropna()), "")
        raise InputError(f"The target {target!r} is not numeric (it holds {example!r}); name a column of numbers.")
    for name in ignore:
        column(frame, name, data)
    names = [name for name in frame.columns if name != target and name not in ignore]
    known = frame.index[np.isfinite(values.to_numpy(dtype=float, na_value=np.nan))]
    if len(known) < 10:
        raise InputError(f"{str(data)!r} has {len(known)} rows with a target {target!r}; at least 10 are needed.")
    if values.loc[known].nunique() == 1:
        raise InputError(f"The target {target!r} is the same in every row; there is nothing to predict.")
    features = frame.loc[known, names]
    numbers = features.select_dtypes("number")
    infinite = [name for name in numbers if np.isinf(numbers[name].to_numpy(dtype=float, na_value=np.nan)).any()]
    if infinite:
        raise InputError(f"Column {infinite[0]!r} holds infinite values; replace them or name the column in --ignore.")
    usable = [name for name in names if features[name].notna().any()]
    if not usable:
        raise InputError(f"{str(data)!r} has no feature columns beside {target!r}; name a table with some.")
    flags = {name: features[name].astype(str) for name in usable if pd.api.types.is_bool_dtype(features[name])}
    return features[usable].assign(**flags), values.loc[known].to_numpy(dtype=float)


def _movable(features: pd.DataFrame, perturb: tuple[str, ...], data: Path) -> list[int | str] | None:
    """Return the columns of ``--perturb``, or None where the default shall choose; raise where nothing could move."""
    from workingpapers.causality.residual_augmentation.tables import perturbable_columns

    for name in perturb:
        if name not in features.columns:
            hint = near_match(name, [str(item) for item in features.columns]) or "; name a feature of the table."
            raise InputError(f"--perturb names {name!r}, which is not a feature of {str(data)!r}{hint}")
    chosen: list[int | str] | None = [*perturb] or None
    if len(perturbable_columns(features, chosen)) == 0:
        raise InputError(
            f"No column of {str(data)!r} may be perturbed: all are text, constant or whole numbers; "
            "name whole-number columns that measure something in --perturb."
        )
    return chosen


def _check_added(frame: pd.DataFrame, data: Path) -> None:
    for name in ADDED_COLUMNS:
        if name in frame.columns:
            raise InputError(f"{str(data)!r} already has a column {name!r}, which the result would add; rename it.")


def _summary(model: Any, read: int, rows: int, added: int, out: Path, target: str) -> str:
    losses = model.report_
    gone = read - rows
    left_out = f" Left out: {gone} row{'s' * (gone > 1)} without a target." if gone else ""
    if model.decision_ == "plain":
        return f"Nothing was added: {out} holds the {rows} original rows alone. {model.reason_}{left_out}"
    if losses.empty:
        return f"Added {added} rows to {rows} without a test and wrote {out}.{left_out}"
    change = 100 * (losses["augmented"].mean() / losses["plain"].mean() - 1)
    return (
        f"Added {added} rows to {rows} and wrote {out}: the cross-validated squared error of {target} changes by "
        f"{change:+.1f} %. {model.reason_}{left_out}"
    )
