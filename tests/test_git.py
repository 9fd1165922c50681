"""What a DVC user does in git: experiments, branches and their difference."""
import copy
import json
import shlex
import time

import numpy as np
import psutil
from conftest import ROOT, call, dump_yaml, load_yaml, yaml
from PIL import Image

from docs.commands import commands


def test_repro_does_nothing_the_second_time(toy):
    done = call("dvc", "repro", cwd=toy)
    assert "Data and pipelines are up to date." in done.stdout and "Running stage" not in done.stdout


def test_an_experiment_trains_just_what_reads_the_temperature_and_branches_can_be_compared(clone):
    call("git", "checkout", "-qb", "colder", cwd=clone)
    done = call("dvc", "exp", "run", "-n", "cold", "-S", "temperature=0.1", cwd=clone)
    ran = {line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage")}
    assert {"plan", "pretrain@simclr_keep", "pretrain@simclr_swap", "judge", "plot"} <= ran
    assert not {stage for stage in ran if stage.startswith(("dataset", "split", "relate")) or stage.endswith("@untrained")}
    assert "cold" in done.stdout
    call("git", "commit", "-qam", "colder", cwd=clone)
    compared = call("dvc", "metrics", "diff", "main", cwd=clone).stdout
    assert "metrics/headline.json" in compared and "simclr_swap.loss" in compared and "untrained" not in compared
    shown = call("dvc", "exp", "show", "--csv", cwd=clone).stdout
    assert "temperature" in shown.splitlines()[0] and "simclr_swap.h_shape" in shown.splitlines()[0]
    rows = call("dvc", "params", "diff", "main", cwd=clone).stdout
    assert "temperature" in rows and "0.1" in rows
    few = call(*shlex.split(readme("dvc exp show")), "--csv", "--num", "2", cwd=clone).stdout
    assert few.splitlines()[0] == "Experiment,rev,typ,Created,simclr_swap.h_shape,simclr_swap.h_color,temperature"
    plots = json.loads(call("dvc", "plots", "diff", "main", "cold", "--json", cwd=clone).stdout)["data"]
    assert {name: plot[0]["revisions"] for name, plot in plots.items()} == {name: ["main", "cold"] for name in ("ledger", "curves", "confusion")}


def readme(start):
    """The command of the README that begins so."""
    return next(command for command in commands((ROOT / "README.md").read_text(encoding="utf-8")) if command.startswith(start))


def test_plots_in_rows_and_columns_name_the_order_of_both():
    """Without, Vega-Lite lays the panels out in the order of the data and the headings in another, so that a panel stands under a wrong heading."""
    for path in (ROOT / ".dvc/plots").glob("*.json"):
        facet = json.loads(path.read_text(encoding="utf-8"))["facet"]
        assert "row" not in facet or facet["row"]["sort"] == facet["column"]["sort"] == {"field": "place", "op": "min"}, path


def test_experiments_in_other_folders_and_two_at_once_from_the_queue_find_images_that_only_dvc_tracks(clone):
    """Experiments 7 (--temp), 8 and 9 (the queue, two workers) each split the same pictures by a seed of their own."""
    generator = np.random.default_rng(0)
    for number in range(40):
        path = clone / f"data/raw/pics/{'ab'[number % 2]}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
    params = load_yaml(clone / "params.yaml")
    entry = copy.deepcopy(load_yaml(ROOT / "params.yaml")["datasets"]["example"])
    params["datasets"]["pics"] = {**entry, "raw": "data/raw/pics", "second_factor": "none", "images": {**entry["images"], "near": "none"}}
    dump_yaml(params, clone / "params.yaml")
    call("dvc", "add", "data/raw/pics", cwd=clone)
    call("git", "add", "-A", cwd=clone)
    call("git", "commit", "-qm", "pictures", cwd=clone)
    assert call("git", "check-ignore", "data/raw/pics", cwd=clone).stdout == "data/raw/pics\n"

    call("dvc", "exp", "run", "--temp", "-S", "datasets.pics.split.seed=7", "split@pics", cwd=clone)
    call("dvc", "exp", "run", "--queue", "-S", "datasets.pics.split.seed=8,9", "split@pics", cwd=clone)
    call("dvc", "queue", "start", "-j", "2", cwd=clone)
    try:
        for _ in range(100):
            status = call("dvc", "queue", "status", cwd=clone).stdout
            if status.count("Success") == 2 or "Failed" in status:
                break
            time.sleep(1)
        assert status.count("Success") == 2, status
    finally:
        call("dvc", "queue", "stop", "--kill", cwd=clone)
    refs = [ref for ref in call("git", "for-each-ref", "refs/exps", "--format=%(refname)", cwd=clone).stdout.split() if ref.count("/") == 4]
    splits = {}
    for ref in refs:
        found, lock = (yaml.load(call("git", "show", f"{ref}:{name}", cwd=clone).stdout) for name in ("params.yaml", "dvc.lock"))
        splits[found["datasets"]["pics"]["split"]["seed"]] = lock["stages"]["split@pics"]["outs"][0]["md5"]
    assert set(splits) == {7, 8, 9} and len(set(splits.values())) == 3
    assert call("git", "status", "--porcelain", cwd=clone).stdout == ""  # the folder itself is as it was
    assert [process.pid for process in psutil.process_iter(["cmdline"]) if str(clone) in " ".join(process.info["cmdline"] or [])] == []
