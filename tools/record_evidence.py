"""``make evidence``: check every paper at its small size and keep the results in the papers' folders.

    python tools/record_evidence.py [SLUG | SLUG:CLAIM ...]

Results of the same code are not computed again. With a claim's name only its record is renewed; each record says which
code it is of.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from workingpapers import api
from workingpapers.catalog.papers import Paper, all_papers, get
from workingpapers.foundations.files import whole_file
from workingpapers.replication.evidence import FILE


def main() -> None:
    """Record the papers or claims that are named, or all papers."""
    named = [argument.partition(":") for argument in sys.argv[1:]]
    chosen = [(get(slug), claim) for slug, _, claim in named]
    for paper, only in chosen or [(paper, "") for paper in all_papers() if paper.has_claim]:
        names = [claim.name for claim in paper.claims()]
        if only and only not in names:
            sys.exit(f"{paper.slug} has no claim {only!r}; it has {', '.join(names)}.")
        kept = _kept(paper) if only else {}
        for name in [only] if only else names:
            (record,) = api.check(paper.slug, claims=[name], size="small", reuse=True)
            kept[name] = record
            print(f"{paper.slug} · {name}: {record['verdict']} ({record['reason']})", flush=True)
        with whole_file(paper.folder / FILE) as stream:
            json.dump([kept[name] for name in names if name in kept], stream, indent=1, ensure_ascii=False)
            stream.write("\n")


def _kept(paper: Paper) -> dict[str, Any]:
    path = paper.folder / FILE
    records = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {record["claim"]: record for record in records}


if __name__ == "__main__":
    main()
