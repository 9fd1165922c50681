"""What a DVC user does in git: experiments, branches and their difference."""
from conftest import call


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
