"""Anonymous memory of the stages that meet every image, on more images than a person would hold in memory.

    python -m benchmarks.memory [--images 1000000]

Shapes of 32 pixels are drawn to disk (3 KB each, twice that while they are drawn), split and related; two seeds of an encoder of
one layer, which leaves most of the time to reading and views, train on them for one epoch and are extracted. Counted is RssAnon, summed over a stage's processes, twenty times a second: pages of the map of
images.npy belong to the page cache, not to the process.
"""
import argparse

from benchmarks.common import publish
from benchmarks.project import call, commands, project, spend

AIM = 1500  # MB
STAGES = {"dataset@shapes": True, "split@shapes": False, "relate@instance": False, "pretrain@simclr_swap": True, "extract@simclr_swap": True}


def many(images):
    """The change of parameters: so many shapes of 32 pixels, one epoch of one run."""
    def change(params):
        shapes = params["datasets"]["shapes"]
        kinds = len(shapes["images"]["shapes"]) * len(shapes["images"]["colors"])
        shapes["images"] |= {"size": 32, "per_kind": -(-images // kinds), "scale": [2 * size for size in shapes["images"]["scale"]],
                             "position": [2 * place for place in shapes["images"]["position"]]}
        shapes["split"] |= {"train": 0.64, "val": 0.16, "test": 0.2}
        params["replicates"] = 2
        params["pretrain"] |= {"epochs": 1, "batch_size": 256}
        params["encoder"]["layers"] = [[16, 4]]
    return change


def main(images):
    lines = ["| stage | seconds | anonymous memory, MB | aim |", "| --- | --- | --- | --- |"]
    with project(many(images)) as folder:
        known = commands(folder)
        spend(known["plan"], folder)
        call("mkdir", "-p", "data/shapes/interventions", cwd=folder)
        for stage, aimed in STAGES.items():
            spent = spend(known[stage], folder)
            lines.append(f"| {stage} | {spent.seconds:,.0f} | {spent.together:,.0f} | {f'{AIM:,}' if aimed else ''} |")
            print(lines[-1], flush=True)
    publish(f"Memory at {images:,} images of 32 pixels", "\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    main(parser.parse_args().images)
