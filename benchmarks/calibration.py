"""Calibration of the judge: how often it calls a difference where there is none, and how often it finds one of a known size.

    python -m benchmarks.calibration [results.npz]

prints the tables of docs/judge.md. results.npz holds right or wrong per seed and test image (as data/correct/<run>.npz does),
by default those of 30 seeds of simclr_swap that the tests keep. A null comparison draws both sides from the same results,
with replacement; a planted effect turns wrong into right, or right into wrong, on one side at random.
"""
import sys
from pathlib import Path

import numpy as np

from stages.lib.intervals import estimate

RESULTS = Path(__file__).parent.parent / "tests/lib/results_by_seed.npz"


def normal_model(images, mean=0.8, deviation=0.03):
    """Draws bool [R, images]: a seed's accuracy is normal; which images are hard is the same for all seeds and both sides."""
    def draw(generator, replicates):
        hard = generator.normal(size=images)
        accuracy = np.clip(generator.normal(mean, deviation, (2, replicates, 1)), 0.01, 0.99)
        score = 0.7 * hard + np.sqrt(1 - 0.49) * generator.normal(size=(2, replicates, images))
        ranks = score.argsort(axis=2).argsort(axis=2)
        return ranks < np.rint(accuracy * images)
    return draw


def real_results(path, name):
    """Draws bool [R, T]: seeds with replacement from real ones, the same pool for both sides."""
    with np.load(path, allow_pickle=False) as file:
        pool = file[name]

    def draw(generator, replicates):
        return pool[generator.integers(0, len(pool), (2, replicates))]
    return draw


def planted(right, effect, generator):
    """`right` [R, T] with its expected mean moved by `effect`: wrong images made right at random (or right ones wrong)."""
    rate = effect / (1 - right.mean()) if effect > 0 else -effect / right.mean()
    return np.where(generator.uniform(size=right.shape) < rate, effect > 0, right)


def verdicts(draw, effect, replicates, comparisons, confidence, seed):
    """(share called above 0, share called below 0) by the judge's rule for `above` by a margin of 0."""
    generator, above, below = np.random.default_rng([seed, replicates]), 0, 0
    for _ in range(comparisons):
        left, right = draw(generator, replicates)
        found = estimate(planted(left, effect, generator).astype(float) - right, confidence, paired=True)
        above += found.low > 0
        below += found.high < 0
    return above / comparisons, below / comparisons


def false_verdicts(draw, replicates, comparisons, confidence, seed):
    return sum(verdicts(draw, 0.0, replicates, comparisons, confidence, seed))


def main(path):
    with np.load(path, allow_pickle=False) as file:
        names = file.files
    draws = {"normal model": normal_model(240), **{name: real_results(path, name) for name in names}}
    print("| results | 3 replicates | 5 | 10 |\n| --- | --- | --- | --- |")
    for name, draw in draws.items():
        print(f"| {name} | " + " | ".join(f"{false_verdicts(draw, replicates, 1000, 0.95, 1):.1%}" for replicates in (3, 5, 10)) + " |")
    print("\n| results | effect | 3 replicates | 5 | 10 |\n| --- | --- | --- | --- | --- |")
    for name, draw in draws.items():
        for effect in (0.02, 0.05, 0.10):
            print(f"| {name} | {100 * effect:.0f} points | "
                  + " | ".join(f"{verdicts(draw, effect, replicates, 1000, 0.95, 2)[0]:.0%}" for replicates in (3, 5, 10)) + " |")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else RESULTS)
