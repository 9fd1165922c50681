"""Exact nearest neighbors, 20,000 queries in 200,000 rows of 128: ours, faiss IndexFlatIP, scikit-learn brute force: time, memory, identical neighbors.

On all cores, and ours and faiss on one: the stages find neighbors in one-thread processes.
"""
import multiprocessing
import resource
import statistics
import time

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmarks.common import aims, publish
from stages.lib.neighbors import nearest, unit_rows

K = 5


def ours(queries, support):
    return nearest(queries, support, K)[0]


def by_faiss(queries, support):
    index = faiss.IndexFlatIP(support.shape[1])
    index.add(support)
    return index.search(queries, K)[1]


def by_sklearn(queries, support):
    return NearestNeighbors(n_neighbors=K, algorithm="brute", metric="cosine").fit(support).kneighbors(queries, return_distance=False)


FUNCTIONS = {"ours": (ours, None), "faiss": (by_faiss, None), "ours, one thread": (ours, 1), "faiss, one thread": (by_faiss, 1),
             "scikit-learn": (by_sklearn, None)}


def measured(name, queries, support, connection):
    """In a process of its own: (seconds, peak growth of memory in MB, neighbors)."""
    function, threads = FUNCTIONS[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with threadpool_limits(threads):
        started = time.monotonic()
        found = function(queries, support)
        seconds = time.monotonic() - started
    connection.send((seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, found))


def main(rounds):
    generator = np.random.default_rng(0)
    queries, support = (unit_rows(generator.standard_normal((count, 128), dtype=np.float32)) for count in (20_000, 200_000))
    results = {name: [] for name in FUNCTIONS}
    for number in range(rounds):
        for name in list(FUNCTIONS)[: 4 if number else 5]:  # the last takes a minute
            here, there = multiprocessing.Pipe()
            process = multiprocessing.get_context("fork").Process(target=measured, args=(name, queries, support, there))
            process.start()
            results[name].append(here.recv())
            process.join()
    reference = results["faiss"][0][2]
    lines = ["| | seconds, median | relative to faiss on as many threads | peak memory, MB | rows with the neighbors of faiss |",
             "| --- | --- | --- | --- | --- |"]
    rows = {}
    for name, found in results.items():
        seconds = statistics.median(value for value, *_ in found)
        peer = results["faiss, one thread" if FUNCTIONS[name][1] else "faiss"]
        relative = statistics.median(mine / theirs for (mine, *_), (theirs, *_) in zip(found, peer, strict=False))
        same = np.mean([(np.sort(row) == np.sort(other)).all() for row, other in zip(found[0][2], reference, strict=True)])
        rows[name] = relative, max(memory for _, memory, _ in found), same
        lines.append(f"| {name} | {seconds:.1f} | {relative:.2f} | {rows[name][1]:,.0f} | {same:.2%} |")
    relative, memory, same = rows["ours"]
    lines += ["", aims(("times faiss", relative, "at most", 1.5), ("times faiss, one thread each", rows["ours, one thread"][0], "at most", 1.5),
                       ("MB", memory, "at most", 1000), ("share with the same neighbors", same, "at least", 1))]
    publish("Nearest neighbors, 20,000 x 200,000 x 128", "\n".join(lines))


if __name__ == "__main__":
    main(5)
