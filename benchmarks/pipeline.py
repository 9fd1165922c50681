"""The whole pipeline in an empty clone: `dvc repro` from nothing against the seconds of its training, again with nothing to do, and one change.

    python -m benchmarks.pipeline [--epochs 40]

Training seconds are the processor seconds of the workers of the pretrain stages in that very run, divided by the cores. A stage that
imports torch is allowed 3.5 s for that.
"""
import argparse
import os
from collections import defaultdict

from benchmarks.common import aims, publish
from benchmarks.project import call, imports, project, spend

CORES = len(os.sched_getaffinity(0))
IMPORT, FACTOR, IDLE = 3.5, 2.5, 4.0  # seconds a stage with torch, times the training seconds, seconds with nothing to do


def module(line):
    """The name of a stage, without `stages.`, from its command line."""
    words = line.split()
    return words[words.index("-m") + 1].removeprefix("stages.")


def imports_torch(name):
    files = imports(f"stages/{name.replace('.', '/')}.py")
    return any("import torch" in open(file).read() for file in files)


def main(epochs):
    def change(params):
        params["pretrain"]["epochs"] = epochs

    with project(change) as folder:
        first = spend("dvc repro", folder)
        again = spend("dvc repro", folder)
        call("git", "add", "-A", cwd=folder)
        call("git", "commit", "-qm", "all", cwd=folder)
        changed = spend("dvc exp run -S temperature=0.1", folder)
    training = sum(seconds for line, seconds in first.workers.items() if module(line).startswith("pretrain."))
    groups = defaultdict(list)
    for line, seconds in first.stages.items():
        groups[module(line).split(".")[0]].append((seconds, imports_torch(module(line))))
    torch = sum(has for group in groups.values() for _, has in group)
    running = sum(seconds for group in groups.values() for seconds, _ in group)
    lines = ["| | seconds |", "| --- | --- |", f"| `dvc repro` from nothing | {first.seconds:,.0f} |", f"| `dvc repro`, nothing to do | {again.seconds:.1f} |",
             f"| `dvc exp run -S temperature=0.1` | {changed.seconds:,.0f} |", "",
             aims(("seconds from nothing", first.seconds, "at most", FACTOR * training / CORES + IMPORT * torch),
                  ("seconds with nothing to do", again.seconds, "at most", IDLE)),
             "", f"The first aim: {FACTOR} times {training:,.0f} processor seconds of training on {CORES} cores, and {IMPORT} s for each of {torch} stages "
             "that import torch. "
             f"Stages ran for {running:,.0f} s, dvc itself took the other {first.seconds - running:,.0f}:", "",
             "| stages | number | seconds | import torch |", "| --- | --- | --- | --- |"]
    for name, group in sorted(groups.items(), key=lambda item: -sum(seconds for seconds, _ in item[1])):
        lines.append(f"| {name} | {len(group)} | {sum(seconds for seconds, _ in group):,.0f} | {'yes' if any(has for _, has in group) else 'no'} |")
    publish("The whole pipeline, nine default runs" + ("" if epochs == 40 else f", {epochs} epochs"), "\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    main(parser.parse_args().epochs)
