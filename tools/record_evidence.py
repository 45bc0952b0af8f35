"""``make evidence``: check every paper at its small size and keep the results in the papers' folders.

    python tools/record_evidence.py [SLUG ...]

Results of the same code are not computed again.
"""

from __future__ import annotations

import json
import sys

from workingpapers import api
from workingpapers.catalog.papers import all_papers, get
from workingpapers.foundations.files import whole_file
from workingpapers.replication.evidence import FILE


def main() -> None:
    """Record the papers that are named, or all."""
    chosen = [get(slug) for slug in sys.argv[1:]] or [paper for paper in all_papers() if paper.has_claim]
    for paper in chosen:
        records = []
        for claim in paper.claims():
            (record,) = api.check(paper.slug, claims=[claim.name], size="small", reuse=True)
            records.append(record)
            print(f"{paper.slug} · {claim.name}: {record['verdict']} ({record['reason']})", flush=True)
        with whole_file(paper.folder / FILE) as stream:
            json.dump(records, stream, indent=1, ensure_ascii=False)
            stream.write("\n")


if __name__ == "__main__":
    main()
