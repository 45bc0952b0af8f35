"""Arms for the runner's tests; importable by worker processes."""

import time
from pathlib import Path

import numpy as np

from workingpapers.replication.claim import Claim, Size


def draw(seed, progress, *, gain=0.0, rows=100, log=""):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=rows)
    progress(0.5, "half way")
    if log:
        with Path(log).open("a", encoding="utf-8") as stream:
            stream.write(f"{seed} {gain}\n")
    products = data.reshape(-1, 10) @ data.reshape(-1, 10).T
    return {"loss": float(np.square(data).mean() - gain + 1e-12 * products.sum())}


def better(seed, progress, **settings):
    return draw(seed, progress, gain=1.0, **settings)


def breaking(seed, progress, **settings):
    if seed == 1:
        raise RuntimeError("the arm broke")
    return draw(seed, progress, **settings)


def slow(seed, progress, **settings):
    time.sleep(0.4)
    return draw(seed, progress, **settings)


def mended(seed, progress, **settings):
    return draw(seed, progress, **settings)


def claim(arms=None, seeds=4, **settings):
    return Claim(
        name="headline",
        statement="The method has a lower loss.",
        metric="loss",
        direction="lower",
        arms=arms or {"method": better, "baseline": draw},
        method="method",
        against="baseline",
        sizes={"smallest": Size(seeds, settings), "small": Size(2 * seeds, settings)},
    )
