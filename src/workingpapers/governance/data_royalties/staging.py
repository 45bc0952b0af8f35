"""Files of events and scores, checked and sorted on disk by DuckDB: any number of events in bounded memory.

The arithmetic is that of :func:`~.money.event_parts`: float64 up to the integer weights, whole numbers (128 bits where
needed) from there on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import check_readable
from workingpapers.governance.data_royalties.accrual import NOT_PAYABLE, Accruals, Event, line_of, read_line
from workingpapers.governance.data_royalties.events import TIME, check_event, parts_of_original
from workingpapers.governance.data_royalties.ledger import Batch, Ledger
from workingpapers.governance.data_royalties.money import PARTS, UNATTRIBUTED, minor_digits
from workingpapers.governance.data_royalties.registry import IDENTIFIER, Policy, Work

if TYPE_CHECKING:
    import duckdb

EVENT_COLUMNS = {
    "event_id": "",
    "time": "",
    "currency": "",
    "gross_minor": "",
    "tax_minor": "0",
    "cost_minor": "0",
    "model_version": "",
    "refund_of": "",
}
NEEDED = ("event_id", "time", "currency", "gross_minor")
AMOUNT = "-?[0-9]{1,15}"

PARTS_QUERY = f"""
WITH usable AS (
    SELECT event_no, work, greatest(0.0, score - stderr * $z - $floor) AS value FROM score
    WHERE event_no BETWEEN $first AND $last AND ($keep_unknown OR NOT starts_with(work, '{NOT_PAYABLE}'))
), weighed AS (
    SELECT *, CAST(floor(value / max(value) OVER (PARTITION BY event_no) * 1e9 + 0.5) AS BIGINT) AS weight
    FROM usable WHERE value > 0
), totalled AS (
    SELECT *, CAST(sum(weight) OVER (PARTITION BY event_no) AS BIGINT) AS total FROM weighed
), floored AS (
    SELECT event_no, work, weight * {PARTS} // total AS parts, weight * {PARTS} % total AS remainder FROM totalled
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY event_no ORDER BY remainder DESC, ltrim(work, '{NOT_PAYABLE}')) AS place,
        {PARTS} - CAST(sum(parts) OVER (PARTITION BY event_no) AS BIGINT) AS missing
    FROM floored
), dealt AS (
    SELECT event_no, work, parts + CASE WHEN place <= missing THEN 1 ELSE 0 END AS parts FROM ranked
)
SELECT event_no, work, parts FROM dealt WHERE parts > 0
UNION ALL
SELECT event_no, '{UNATTRIBUTED}', {PARTS} FROM event
WHERE event_no BETWEEN $first AND $last AND event_no NOT IN (SELECT event_no FROM dealt) AND refund_of = ''
"""


@contextmanager
def staged(ledger: Ledger, events: Path, scores: Path, *, memory: str = "1GB") -> Iterator[Stage]:
    """Give both files checked and sorted on disk, in a temporary database that is removed afterwards.

    Raises:
        InputError: A line of the files cannot be.
    """
    import duckdb

    state = ledger.state
    assert state.policy is not None, "a ledger opens with a policy"
    with tempfile.TemporaryDirectory(prefix="royalties-") as folder:
        connection = duckdb.connect(str(Path(folder) / "stage.duckdb"))
        try:
            connection.execute("SET preserve_insertion_order = true")
            connection.execute("SET temp_directory = ?", [folder])
            connection.execute("SET threads = 2")
            try:
                connection.execute("SET memory_limit = ?", [memory])
            except duckdb.Error:
                raise InputError(f"The memory limit is {memory!r}; write it as '1GB' or '500MB'.") from None
            stage = Stage(connection, state.policy)
            stage.load_events(events, state.open_period("0000-00"))
            stage.load_scores(scores, state.works)
            stage.check_refunds(ledger)
            yield stage
        finally:
            connection.close()


class Stage:
    """Events and scores in a temporary database, sorted by period, currency and time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, policy: Policy) -> None:
        self._connection = connection
        self._policy = policy
        self.count = 0

    def load_events(self, path: Path, open_period: str) -> None:
        """Read, check and sort the events; the late ones go to `open_period`.

        Raises:
            InputError: A line cannot be; the message names the event.
        """
        columns = self._columns(path, NEEDED, tuple(EVENT_COLUMNS))
        chosen = ", ".join(
            f"coalesce({_text(name, columns[name])}, '{default}') AS {name}"
            if name in columns
            else f"'{default}' AS {name}"
            for name, default in EVENT_COLUMNS.items()
        )
        self._connection.execute(f"CREATE TABLE raw AS SELECT {chosen} FROM {_source(path)}")
        self._refuse_events(path)
        self._connection.execute(
            f"""CREATE TABLE event AS SELECT CAST(row_number() OVER () - 1 AS BIGINT) AS event_no, * FROM (
                SELECT event_id, time, currency, CAST(gross_minor AS BIGINT) AS gross, CAST(tax_minor AS BIGINT) AS tax,
                    CAST(cost_minor AS BIGINT) AS cost, model_version, refund_of,
                    greatest(substring(time, 1, 7), '{open_period}') AS period
                FROM raw ORDER BY period, currency, time, refund_of <> '', event_id)"""
        )
        self._connection.execute("DROP TABLE raw")
        self.count = self._number("SELECT count(*) FROM event")

    def load_scores(self, path: Path, works: Mapping[str, Work]) -> None:
        """Read and check the scores, mark works that cannot be paid, and sort them by event.

        Raises:
            InputError: A line cannot be; the message names event and work.
        """
        columns = self._columns(path, ("event_id", "work", "score"), ("event_id", "work", "score", "stderr"))
        stderr = "coalesce(CAST(stderr AS VARCHAR), '0')" if "stderr" in columns else "'0'"
        rows = [[work.id, work.valid_from, work.valid_to or "9999-12-31", list(work.models)] for work in works.values()]
        self._connection.execute("CREATE TABLE work (id VARCHAR, first VARCHAR, last VARCHAR, models VARCHAR[])")
        for start in range(0, len(rows), 1000):
            chunk = rows[start : start + 1000]
            marks = ", ".join("(?, ?, ?, CAST(? AS VARCHAR[]))" for _ in chunk)
            self._connection.execute(f"INSERT INTO work VALUES {marks}", [value for row in chunk for value in row])
        self._connection.execute(
            f"""CREATE TABLE score AS
            SELECT event_no, raw.event_id AS event_id, raw.work AS given, TRY_CAST(raw.score AS DOUBLE) AS score,
                TRY_CAST(raw.stderr AS DOUBLE) AS stderr, event.refund_of AS refund_of,
                CASE WHEN raw.work = '{UNATTRIBUTED}' OR (work.id IS NOT NULL
                    AND substring(event.time, 1, 10) BETWEEN work.first AND work.last
                    AND (len(work.models) = 0 OR list_contains(work.models, event.model_version)))
                THEN raw.work ELSE '{NOT_PAYABLE}' || raw.work END AS work
            FROM (SELECT CAST(event_id AS VARCHAR) AS event_id, CAST(work AS VARCHAR) AS work,
                    CAST(score AS VARCHAR) AS score, {stderr} AS stderr FROM {_source(path)}) AS raw
            LEFT JOIN event USING (event_id) LEFT JOIN work ON work.id = raw.work
            ORDER BY event_no, work"""
        )
        self._refuse_scores(path)

    def check_refunds(self, ledger: Ledger) -> None:
        """Refuse refunds whose original is nowhere, does not fit, or is exceeded within the file.

        Raises:
            InputError: There is such a refund.
        """
        fields = "event_id, time, currency, gross, tax, cost, model_version, refund_of"
        query = f"SELECT {fields} FROM event WHERE refund_of <> '' ORDER BY event_no LIMIT 20000 OFFSET ?"
        start = 0
        while found := self._connection.execute(query, [start]).fetchall():
            start += len(found)
            refunds = [Event(*row) for row in found]
            names = {refund.refund_of for refund in refunds}
            here = self._connection.execute(
                f"""SELECT {fields} FROM event WHERE event_id IN
                (SELECT refund_of FROM event WHERE refund_of <> '' ORDER BY event_no LIMIT 20000 OFFSET ?)""",
                [start - len(found)],
            ).fetchall()
            known = ledger.store.find(names)
            known |= {row[0]: (-1, line_of(Event(*row), {UNATTRIBUTED: PARTS})) for row in here}
            for refund in refunds:
                parts_of_original(refund, known)
        over = self._connection.execute(
            """SELECT original.event_id, original.gross, -sum(refund.gross) FROM event AS refund
            JOIN event AS original ON original.event_id = refund.refund_of
            GROUP BY ALL HAVING -sum(refund.gross) > original.gross ORDER BY 1 LIMIT 1"""
        ).fetchone()
        if over:
            raise InputError(f"Event {over[0]!r} of {over[1]} is refunded by {over[2]} in all; correct the refunds.")

    def batches(self, ledger: Ledger, size: int) -> Iterator[tuple[int, Batch]]:
        """Give batches of at most `size` events of one period and currency, with the number of events so far."""
        groups = self._connection.execute(
            "SELECT period, currency, min(event_no), max(event_no) FROM event GROUP BY ALL ORDER BY 3"
        ).fetchall()
        for period, currency, first, last in groups:
            for start in range(first, last + 1, size):
                stop = min(last, start + size - 1)
                yield stop + 1, self._batch(ledger, period, currency, start, stop)

    def unknown(self) -> tuple[str, ...]:
        """Return ids of scored works that are not registered, at most twenty."""
        rows = self._connection.execute(
            "SELECT DISTINCT given FROM score WHERE given <> ? AND given NOT IN (SELECT id FROM work) "
            "ORDER BY 1 LIMIT 20",
            [UNATTRIBUTED],
        ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def _batch(self, ledger: Ledger, period: str, currency: str, first: int, last: int) -> Batch:
        policy = self._policy
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE part AS {PARTS_QUERY}",
            {
                "z": float(policy.confidence_z),
                "floor": float(policy.min_score),
                "keep_unknown": policy.unknown != "pro_rata",
                "first": first,
                "last": last,
            },
        )
        found = self._connection.execute(
            """SELECT event_id, concat_ws('|', time, currency, gross, tax, cost, model_version, refund_of, dealt)
            FROM event JOIN (SELECT event_no, string_agg(work || '=' || parts, ',' ORDER BY work) AS dealt
                FROM part GROUP BY event_no) USING (event_no) ORDER BY event_no""",
        ).fetchall()
        refunds = self._refunds(ledger, first, last, dict(found))
        rows = [(event_id, None, line) for event_id, line in found] + refunds

        def aggregate(excluded: set[str]) -> Accruals:
            total = self._sums(first, last, excluded)
            for event_id, _, line in refunds:
                if event_id not in excluded:
                    total.add(*read_line(event_id, line))
            return total

        return Batch(period, currency, rows, aggregate)

    def _sums(self, first: int, last: int, excluded: set[str]) -> Accruals:
        self._connection.execute("CREATE OR REPLACE TEMP TABLE excluded (event_id VARCHAR)")
        names = sorted(excluded)
        for start in range(0, len(names), 1000):
            chunk = names[start : start + 1000]
            self._connection.execute(f"INSERT INTO excluded VALUES {', '.join(['(?)'] * len(chunk))}", chunk)
        counted = f"""FROM event WHERE event_no BETWEEN {first} AND {last} AND refund_of = ''
            AND event_id NOT IN (SELECT event_id FROM excluded)"""
        count, gross, tax, base = self._connection.execute(
            f"SELECT count(*), sum(gross), sum(tax), sum(gross - tax - cost) {counted}"
        ).fetchall()[0]
        sums = self._connection.execute(
            f"""SELECT work, sum(base::HUGEINT * parts) FROM part
            JOIN (SELECT event_no, gross - tax - cost AS base {counted}) USING (event_no) GROUP BY work"""
        ).fetchall()
        parts = {str(work): int(total) for work, total in sums}
        return Accruals(int(count), int(gross or 0), int(tax or 0), int(base or 0), parts)

    def _refunds(
        self, ledger: Ledger, first: int, last: int, here: Mapping[str, str]
    ) -> list[tuple[str, str | None, str]]:
        found = self._connection.execute(
            f"""SELECT event_id, time, currency, gross, tax, cost, model_version, refund_of FROM event
            WHERE event_no BETWEEN {first} AND {last} AND refund_of <> '' ORDER BY event_no"""
        ).fetchall()
        refunds = [Event(*row) for row in found]
        elsewhere = ledger.store.find({refund.refund_of for refund in refunds} - here.keys())
        originals = elsewhere | {
            name: (-1, here[name]) for name in (item.refund_of for item in refunds) if name in here
        }
        rows: list[tuple[str, str | None, str]] = []
        for refund in refunds:
            parts = parts_of_original(refund, originals)
            rows.append((refund.event_id, refund.refund_of, line_of(refund, parts)))
        return rows

    def _columns(self, path: Path, needed: Iterable[str], known: tuple[str, ...]) -> dict[str, str]:
        import duckdb

        check_readable(path)
        try:
            described = self._connection.execute(f"DESCRIBE SELECT * FROM {_source(path)}").fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"{str(path)!r} cannot be read as a table: {reason}.") from None
        columns = {str(row[0]): str(row[1]) for row in described}
        for name in needed:
            if name not in columns:
                hint = near_match(name, columns) or f"; it has {', '.join(list(columns)[:8])}."
                raise InputError(f"{str(path)!r} has no column {name!r}{hint}")
        for name in columns:
            if name not in known:
                raise InputError(
                    f"{str(path)!r} has an unknown column {name!r}{near_match(name, known) or '; leave it out.'}"
                )
        return columns

    def _refuse_events(self, path: Path) -> None:
        if not self._number("SELECT count(*) FROM raw"):
            raise InputError(f"{str(path)!r} holds a header but no rows; name a file with events.")
        bad = self._connection.execute(
            f"""SELECT event_id, gross_minor, tax_minor, cost_minor FROM raw
            WHERE NOT (regexp_full_match(gross_minor, '{AMOUNT}') AND regexp_full_match(tax_minor, '{AMOUNT}')
                AND regexp_full_match(cost_minor, '{AMOUNT}')) LIMIT 1"""
        ).fetchone()
        if bad:
            raise InputError(f"Event {bad[0]!r} has amounts {bad[1:]}; use whole minor units of at most 15 digits.")
        for (currency,) in self._connection.execute("SELECT DISTINCT currency FROM raw ORDER BY 1").fetchall():
            minor_digits(currency)
        # What SQL finds suspicious goes through the same check as a single event, which words the message.
        suspects = self._connection.execute(
            f"""SELECT event_id, time, currency, CAST(gross_minor AS BIGINT) AS gross, CAST(tax_minor AS BIGINT) AS tax,
                CAST(cost_minor AS BIGINT) AS cost, model_version, refund_of FROM raw
            WHERE NOT regexp_full_match(event_id, '{IDENTIFIER}') OR NOT regexp_full_match(time, '{TIME}')
                OR TRY_CAST(time AS TIMESTAMP) IS NULL
                OR NOT (model_version = '' OR regexp_full_match(model_version, '{IDENTIFIER}'))
                OR CASE WHEN refund_of = '' THEN gross < 0 OR tax < 0 OR cost < 0 OR tax + cost > gross
                    ELSE gross > 0 OR tax > 0 OR cost > 0 OR tax + cost < gross END LIMIT 20"""
        ).fetchall()
        for row in suspects:
            check_event(Event(*row))
        twice = self._connection.execute(
            "SELECT event_id FROM raw GROUP BY event_id HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
        ).fetchone()
        if twice:
            raise InputError(f"{str(path)!r} gives event {twice[0]!r} more than once; keep one line for each.")

    def _refuse_scores(self, path: Path) -> None:
        checks = (
            ("event_no IS NULL", "names event {0!r}, which is not in the file of events; leave it out."),
            (
                "refund_of <> ''",
                "scores event {0!r}, a refund; a refund takes the parts of its original, leave it out.",
            ),
            (
                "score IS NULL OR stderr IS NULL OR NOT isfinite(score) OR NOT isfinite(stderr) OR stderr < 0",
                "gives work {1!r} of event {0!r} no finite score (and standard error from 0); correct the line.",
            ),
            (
                f"given <> '{UNATTRIBUTED}' AND NOT regexp_full_match(given, '{IDENTIFIER}')",
                "has a work id {1!r} (event {0!r}) with characters that ids cannot have.",
            ),
        )
        for condition, message in checks:
            bad = self._connection.execute(f"SELECT event_id, given FROM score WHERE {condition} LIMIT 1").fetchone()
            if bad:
                raise InputError(f"{str(path)!r} {message.format(*bad)}")
        # Sorted by event and work, so that a repeated line stands beside its twin.
        twice = self._connection.execute(
            """SELECT event_id, given FROM (SELECT event_id, given, lag(event_no) OVER w AS event_before, event_no,
                lag(work) OVER w AS work_before, work FROM score WINDOW w AS (ORDER BY rowid))
            WHERE event_no = event_before AND work = work_before LIMIT 1"""
        ).fetchone()
        if twice:
            raise InputError(f"{str(path)!r} scores work {twice[1]!r} of event {twice[0]!r} twice; keep one line.")

    def _number(self, query: str) -> Any:
        return self._connection.execute(query).fetchall()[0][0]


def _text(name: str, kind: str) -> str:
    if not kind.startswith("TIMESTAMP"):
        return f"CAST({name} AS VARCHAR)"
    # Through microseconds since the epoch: naive times count as UTC, and no time zone data is needed.
    moment = f"make_timestamp(epoch_us({name}))"
    return (
        f"CASE WHEN epoch_us({name}) % 1000000 = 0 THEN strftime({moment}, '%Y-%m-%dT%H:%M:%SZ') "
        f"ELSE strftime({moment}, '%Y-%m-%dT%H:%M:%S.%fZ') END"
    )


def _source(path: Path) -> str:
    name = str(path).replace("'", "''")
    if path.suffix.lower() == ".parquet":
        return f"read_parquet('{name}')"
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    return f"read_csv('{name}', header = true, all_varchar = true, delim = '{separator}')"
