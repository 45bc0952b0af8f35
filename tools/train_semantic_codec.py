"""Train the codec of the catalog's search by meaning and write it to the package.

    python tools/train_semantic_codec.py

Training texts are docstrings of installed packages (the collection of the paper crossq): 2,000 pairs of a first
paragraph, the query, and the rest of the docstring, the document. The codec keeps codebooks, nothing of the texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workingpapers.inference.crossq.collection import encoded_collection
from workingpapers.inference.crossq.quantiser import CrossQ

TARGET = Path(__file__).parents[1] / "src/workingpapers/catalog/data/semantic_codec.npz"


def main() -> None:
    """Train for some minutes on one core."""
    vectors = encoded_collection(2000, lambda share, message="": print(f"{100 * share:3.0f} % {message}", end="\r"))
    positives = np.arange(len(vectors.queries.offsets) - 1)
    quantiser = CrossQ(8, dim=128).fit(
        vectors.documents.rows, vectors.documents.offsets, queries=vectors.queries, positives=positives
    )
    quantiser.save(TARGET)
    print(f"Written: {TARGET} ({TARGET.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
