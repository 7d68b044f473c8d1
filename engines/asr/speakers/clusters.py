"""Agglomerative clustering of voices by cosine, with average linkage. NumPy alone.

The mean cosine between the members of two clusters is the product of their sums over both their sizes. So a cluster is
its sum and its size, and clusters of clusters are joined exactly as their members would be.

A matrix of n voices has n² similarities. Above ``BLOCK`` voices, each block is clustered by itself first, so memory
grows with n, and the time with n · ``BLOCK``².
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

BLOCK = 512
"""Voices that are compared with each other at once: 1 MB of similarities."""
MOST = 64
"""Clusters that one block leaves at most. More are joined, however unlike they are."""


def cluster(voices: Any, threshold: float, most: int = MOST) -> Generator[None, None, Any]:
    """Number of its cluster for each voice, int [n], numbered in the order of appearance.

    ``voices``: float32 [n, d], each of length 1. Clusters whose mean cosine is at least ``threshold`` are joined, the
    most alike first; then the most alike until ``most`` are left. Yields None behind each block, which takes some ten
    milliseconds: two hours of sound have forty of them.
    """
    import numpy

    labels = numpy.arange(len(voices))
    sums, sizes = numpy.asarray(voices, numpy.float32), numpy.ones(len(voices), numpy.float32)
    while len(sums) > BLOCK:
        joined = []
        for at in range(0, len(sums), BLOCK):
            joined.append(_join(sums[at : at + BLOCK], sizes[at : at + BLOCK], threshold, MOST))
            yield None
        offsets = numpy.cumsum([0, *(one.max() + 1 for one in joined)])
        steps = numpy.concatenate([one + offset for one, offset in zip(joined, offsets, strict=False)])
        labels, sums, sizes = steps[labels], *_summed(sums, sizes, steps)
    return in_order(_join(sums, sizes, threshold, most)[labels])


def in_order(labels: Any) -> Any:
    """The same clusters, numbered in the order of appearance."""
    import numpy

    _, first, inverse = numpy.unique(labels, return_index=True, return_inverse=True)
    return numpy.argsort(numpy.argsort(first))[inverse.ravel()]


def centres(voices: Any, labels: Any) -> Any:
    """The mean voice of each cluster, scaled to length 1: float32 [clusters, d]."""
    import numpy

    sums, _ = _summed(voices, numpy.ones(len(voices), numpy.float32), labels)
    return unit(sums)


def unit(voices: Any) -> Any:
    """The voices scaled to length 1; one of length 0 stays."""
    import numpy

    lengths = numpy.linalg.norm(voices, axis=-1, keepdims=True)
    return voices / numpy.where(lengths > 0, lengths, 1)


def _summed(sums: Any, sizes: Any, labels: Any) -> tuple[Any, Any]:
    """Sums and sizes of the clusters that ``labels`` put together."""
    import numpy

    count = int(labels.max()) + 1 if len(labels) else 0
    joined = numpy.zeros((count, sums.shape[1]), numpy.float32)
    numpy.add.at(joined, labels, sums)
    return joined, numpy.bincount(labels, sizes, count).astype(numpy.float32)


def _join(sums: Any, sizes: Any, threshold: float, most: int) -> Any:
    """Number of its cluster for each of n clusters; the numbers have no gaps."""
    import numpy

    count = left = len(sums)
    labels = numpy.arange(count)
    products, sizes = sums @ sums.T, sizes.copy()
    cosines = products / numpy.outer(sizes, sizes)
    numpy.fill_diagonal(cosines, -numpy.inf)
    while left > 1:
        kept, gone = sorted(divmod(int(cosines.argmax()), count))
        if cosines[kept, gone] < threshold and left <= most:
            break
        labels[labels == gone] = kept
        products[kept] += products[gone]
        products[:, kept] = products[kept]
        sizes[kept] += sizes[gone]
        alive = numpy.isfinite(cosines[kept])
        alive[gone] = False
        cosines[gone] = cosines[:, gone] = -numpy.inf
        cosines[kept, alive] = cosines[alive, kept] = products[kept, alive] / (sizes[kept] * sizes[alive])
        left -= 1
    return numpy.unique(labels, return_inverse=True)[1].ravel()
