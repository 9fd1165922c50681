"""Growth: seconds, time per image and memory of dataset, extract, probe and judge, from a thousand images to a hundred thousand.

    python -m benchmarks.growth [--images 1000 10000 100000]

Three runs of two seeds, two of them trained for an epoch; two interventions, one transformation; one C of at most 100 steps, so that
the pixels, which judge asks for, are read out in minutes at the largest size.
"""
import argparse

from benchmarks.common import publish
from benchmarks.project import commands, project, spend

RUNS = ("untrained", "simclr_swap", "moco_swap")
MEASURED = ("dataset@shapes", "extract@simclr_swap", "probe@simclr_swap", "judge")


def many(images):
    """The change of parameters: so many shapes, and little of everything else."""
    def change(params):
        params["replicates"] = 2
        shapes = params["datasets"]["shapes"]
        kinds = len(shapes["images"]["shapes"]) * len(shapes["images"]["colors"])
        shapes["images"]["per_kind"] = -(-images // kinds)
        shapes["split"] |= {"train": 0.64, "val": 0.16, "test": 0.2}
        params["pretrain"]["epochs"] = 1
        params["probe"] |= {"C": [1], "max_iter": 100}
        params["extract"]["transformed"] = 100
        for block, kept in (("runs", RUNS), ("interventions", ("color", "camera")), ("transformations", ("swap",)),
                            ("claims", ("swap_lifts_main", "swap_hides_color")), ("datasets", ("shapes",)), ("mined", ()), ("transfers", ())):
            params[block] = {name: params[block][name] for name in kept}
    return change


def main(sizes):
    lines = ["| stage | images | seconds | ms an image | anonymous memory, MB |", "| --- | --- | --- | --- | --- |"]
    order = ["plan", "dataset@shapes", "split@shapes", "relate@instance", "intervene", "probe_pixels",
             *(f"{stage}@{run}" for run in RUNS for stage in ("pretrain", "extract", "probe", "geometry", "finetune")), "judge"]
    found = {}
    for images in sizes:
        with project(many(images)) as folder:
            known = commands(folder)
            for stage in order:
                found[stage, images] = spend(known[stage], folder)
                print(f"{images} {stage} {found[stage, images].seconds:.1f} s", flush=True)
    for stage in MEASURED:
        for images in sizes:
            spent = found[stage, images]
            lines.append(f"| {stage} | {images:,} | {spent.seconds:,.1f} | {1000 * spent.seconds / images:.2f} | {spent.together:,.0f} |")
    publish("Growth with the number of images", "\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    main(parser.parse_args().images)
