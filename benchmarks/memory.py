"""Anonymous memory of the stages that meet every image, on more images than a person would hold in memory.

    python -m benchmarks.memory [--images 1000000]

Shapes of 32 pixels are drawn to disk (3 KB each, twice that while they are drawn), split and related; two seeds of an encoder of one
layer, which leaves most of the time to reading and views, train on them for one epoch and are extracted. Counted is RssAnon, summed
over a stage's processes, twenty times a second: pages of the map of images.npy belong to the page cache, not to the process. Importing
torch alone is some 290 MB of it, counted again in each forked worker, though they share it.
"""
import argparse

from benchmarks.common import aims, publish
from benchmarks.project import call, commands, project, spend

STAGES = ("dataset@shapes", "split@shapes", "relate@instance", "pretrain@simclr_swap", "extract@simclr_swap")


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
    lines, aimed = ["| stage | seconds | anonymous memory, MB |", "| --- | --- | --- |"], []
    with project(many(images)) as folder:
        known = commands(folder)
        spend(known["plan"], folder)
        call("mkdir", "-p", "data/shapes/interventions", cwd=folder)
        for stage in STAGES:
            spent = spend(known[stage], folder)
            lines.append(f"| {stage} | {spent.seconds:,.0f} | {spent.together:,.0f} |")
            if stage.startswith(("dataset", "pretrain", "extract")):
                aimed.append((f"MB of {stage}", spent.together, "at most", 1500))
            print(lines[-1], flush=True)
    publish(f"Memory at {images:,} images of 32 pixels", "\n".join([*lines, "", aims(*aimed)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    main(parser.parse_args().images)
