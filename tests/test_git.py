"""What a DVC user does in git: experiments, branches and their difference."""
import json
import shlex

from conftest import ROOT, call

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
