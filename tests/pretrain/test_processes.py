"""Two processes train what one trains: losses, gradients, curves, weights; one of them writes and speaks, and none is left behind."""
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import torch
import torch._dynamo  # noqa: F401, which the first optimizer of a process imports: here once instead of in each process
from conftest import ROOT
from safetensors.numpy import load_file
from small_data import write_inputs
from test_objectives import CLASSES, STAGES, source

from stages.lib import loop, together
from stages.lib.encoder import fingerprint, start
from stages.lib.resume import Saved
from stages.lib.stage import Refused, told
from stages.lib.tables import read_json, read_table
from stages.lib.together import average, from_first, gathered, joined, rank, share, world

linux = pytest.mark.skipif(sys.platform != "linux", reason="the signal of a parent's death is Linux's")
IDS = torch.tensor([0, 2, 3, 7, 9])  # shares of two and of three
GROUPS = np.arange(15) // 2
CASES = {"simclr": {"negatives": {"learn_temperature": [0.05, 1.0], "debias": 0.1, "hardness": 0.5}, "relation": GROUPS},
         "moco": {"negatives": {"learn_temperature": [0.05, 1.0]}}, "supcon": {"relation": GROUPS}, "vicreg": {}}


def in_two(work, *arguments):
    """work(*arguments) in two processes, as a launcher would start them; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def process(number):
        os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        work(*arguments)

    processes = [multiprocessing.get_context("fork").Process(target=process, args=(number,)) for number in (0, 1)]
    for one in processes:
        one.start()
    for one in processes:
        one.join(60)
        one.kill()
    return [one.exitcode for one in processes]


def steps(folder, objective):
    """Loss and gradient in float64 of each of three steps of an objective, {name: array}, and a hash of the weights that they lead to."""
    paths = write_inputs(folder, objective, **CASES[objective])
    recipe = read_json(paths["plan"])
    learner = CLASSES[objective](start(recipe["encoder"], 8, 3), recipe, source(paths))
    learner.begin()
    learner.double()
    found = {}
    for step, ids in enumerate((IDS, IDS + 1, IDS + 2)):
        loss, z, _ = learner(learner.source.views(ids[share(len(ids))], 1).double(), ids)
        learner.zero_grad()
        loss.backward()
        average(learner.parameters())
        found |= {f"{step} loss": loss.detach().numpy(), f"{step} z": z.detach().numpy()}
        for name, parameter in learner.named_parameters():
            if parameter.requires_grad:
                found[f"{step} {name}"] = parameter.grad.numpy().copy()
                parameter.data -= 0.01 * parameter.grad
        learner.after_step(ids, 1)
    found |= {f"ring {name}": value.numpy() for name, value in learner.named_buffers() if name.startswith("ring")}
    return found, fingerprint(learner)


def write_steps(folder):
    with joined(2, "cpu"):
        for objective in CASES:
            found, code = steps(folder / f"{rank()}", objective)
            np.savez(folder / f"{objective}-{rank()}.npz", code=code, **found)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder with what two processes found in three steps of every objective."""
    folder = tmp_path_factory.mktemp("two")
    for number in "01":
        (folder / number).mkdir()
    assert in_two(write_steps, folder) == [0, 0]
    return folder


@pytest.mark.parametrize("objective", CASES)
def test_two_processes_and_one_have_the_same_loss_and_gradient_and_ring_to_1e_6(objective, both, tmp_path):
    """Three steps over unequal shares, 2 and 3 images; a trained temperature, relations, debiased and weighted negatives."""
    one, _ = steps(tmp_path, objective)
    first, second = (dict(np.load(both / f"{objective}-{number}.npz")) for number in "01")
    for name, value in one.items():
        np.testing.assert_allclose(first[name], value, rtol=1e-6, atol=1e-12, err_msg=name)
        assert np.array_equal(first[name], second[name]), name
    assert first["code"] == second["code"]


def inputs(folder, objective, processes, **settings):
    """A shift of z leaves VICReg's loss: such a bias has a gradient of rounding errors alone, of which Adam makes whole steps. So these are short."""
    folder.mkdir()
    return write_inputs(folder, objective, **CASES[objective], pretrain={"processes": processes, "lr": 0.0001 if objective == "vicreg" else 0.01, **settings})


def elsewhere(paths):
    """These paths for the first process; for the second, outputs and saved states in a folder that is not there: it neither writes nor needs them."""
    outputs = ("models", "curves", "staleness", "resume")
    return paths if os.environ["RANK"] == "0" else {**paths, **{name: f"{os.path.dirname(paths['plan'])}/not/there" for name in outputs}}


@pytest.mark.parametrize("objective", CASES)
def test_a_run_of_two_processes_has_the_loss_curve_of_one_to_1e_4_and_its_weights(objective, tmp_path):
    """Two seeds, two epochs, four batches of three images, of which one process has one and the other two."""
    one, two = tmp_path / "one", tmp_path / "two"
    STAGES[objective].main(**inputs(one, objective, 1, batch_size=3))
    assert in_two(lambda paths: STAGES[objective].main(**elsewhere(paths)), inputs(two, objective, 2, batch_size=3)) == [0, 0] and not (two / "not").exists()
    for name, column in (("curves.csv", "loss"), ("staleness.csv", "cosine")):
        ours, theirs = read_table(two / name), read_table(one / name)
        assert [float(row[column] or 0) for row in ours] == pytest.approx([float(row[column] or 0) for row in theirs], abs=1e-4)
        assert [list(row) for row in ours] == [list(row) for row in theirs]
    for seed in (3, 4):
        ours, theirs = (load_file(folder / f"models/{seed}.safetensors") for folder in (two, one))
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=0, atol=2e-3 if objective == "vicreg" else 1e-4)


def test_shares_follow_each_other_and_differ_by_at_most_one(monkeypatch):
    for number in range(3):
        monkeypatch.setattr("stages.lib.together.rank", lambda number=number: number)
        monkeypatch.setattr("stages.lib.together.world", lambda: 3)
        assert share(7) == [slice(0, 2), slice(2, 4), slice(4, 7)][number]


def test_one_process_gets_back_the_tensor_it_gave():
    z = torch.ones(2, 3)
    assert gathered(z, 2) is z and share(5) == slice(0, 5) and (rank(), world()) == (0, 1) and from_first(lambda: 8) == 8


def say(folder, paths, fail):
    """What each of two processes has to say about a run in which `fail(number, learner)` is called at every step."""
    class Fails(CLASSES["simclr"]):
        def after_step(self, ids, epoch):
            fail(rank())

    if fault := told(lambda **paths: loop.pretrain(Fails, **paths), paths):
        (folder / f"said-{os.environ['RANK']}").write_text(fault)
        sys.exit(1)


def refuse(number, those):
    if number in those:
        raise Refused(f"something is wrong in {number}")


@pytest.mark.parametrize("fail, line", [
    (lambda number: refuse(number, (1,)), "error: something is wrong in 1"),
    (lambda number: refuse(number, (0,)), "error: something is wrong in 0"),
    (lambda number: refuse(number, (0, 1)), "error: something is wrong in "),
    (lambda number: number and os.kill(os.getpid(), signal.SIGKILL), "error: another of the 2 processes of this training ended"),
])
def test_a_fault_of_one_process_ends_both_and_one_line_is_said(fail, line, tmp_path):
    codes = in_two(say, tmp_path, write_inputs(tmp_path, "simclr", pretrain={"processes": 2}), fail)
    assert all(code in (1, -signal.SIGKILL) for code in codes) and not (tmp_path / "models").exists()
    said = [path.read_text() for path in tmp_path.glob("said-*")]
    assert len(said) == 1 and said[0].startswith(line) and len(said[0].splitlines()) == 1


@pytest.mark.parametrize("environment, said", [
    ({}, "pretrain.processes: 2, but without PRETRAIN_LAUNCHER there is 1"),
    ({"PRETRAIN_LAUNCHED": "1"}, "pretrain.processes: 2, but the launcher started 1"),
    ({"PRETRAIN_LAUNCHER": "torchrum --nproc-per-node 2"}, "PRETRAIN_LAUNCHER: torchrum is not found"),
])
def test_a_count_that_disagrees_is_refused_naming_both(environment, said, monkeypatch, tmp_path):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused, match=said):
        STAGES["simclr"].main(**write_inputs(tmp_path, "simclr", pretrain={"processes": 2}))


@pytest.mark.parametrize("settings, line", [
    ({"pretrain": {"processes": 1}}, "error: pretrain.processes: 1, but the launcher started 2; allowed: equal numbers"),
    ({"pretrain": {"processes": 2}, "device": "cuda"}, "error: device: cuda was asked for, but PyTorch finds no CUDA device here; allowed here: cpu"),
    ({"pretrain": {"processes": 2, "batch_size": 60}}, "error: pretrain.batch_size: 60 is larger than the 12 train images"),
])
def test_of_two_processes_that_refuse_the_same_one_says_so(settings, line, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert in_two(say, tmp_path, write_inputs(tmp_path, "simclr", **settings), lambda number: None) == [1, 1]
    assert [path.read_text()[: len(line)] for path in tmp_path.glob("said-*")] == [line]


def test_srun_tells_number_and_count_in_its_own_words(monkeypatch):
    for name, value in (("PRETRAIN_LAUNCHED", "1"), ("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "4")):
        monkeypatch.setenv(name, value)
    assert together._counted() == (3, 4)
    monkeypatch.delenv("PRETRAIN_LAUNCHED")  # an interactive job of four tasks in which nobody asked for several processes
    assert together._counted() == (0, 1)


def test_a_batch_with_fewer_images_than_processes_is_refused():
    with pytest.raises(Refused, match="pretrain.processes: 4 cannot share a batch of 3 images"):
        loop.batches(6, 5, 4)


def test_two_processes_that_are_killed_go_on_together_and_end_with_the_bytes_of_two_that_are_not(tmp_path, monkeypatch):
    """The first process dies when the state of epoch 2 of 4 is saved; the next two begin with epoch 3."""
    whole, broken = (inputs(tmp_path / name, "moco", 2, epochs=4) for name in ("whole", "broken"))
    main, save, load = STAGES["moco"].main, Saved.save, Saved.load

    def dying(self, learner, optimizer, epoch, **more):
        save(self, learner, optimizer, epoch, **more)
        if epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def logging(self, learner, optimizer):
        state = load(self, learner, optimizer)
        with open(tmp_path / "loaded", "a") as file:
            file.write(f"{state and state['epoch']} ")
        return state

    assert in_two(lambda: main(**whole)) == [0, 0]
    monkeypatch.setattr(Saved, "save", dying)
    assert in_two(lambda: main(**broken))[0] == -signal.SIGKILL
    monkeypatch.setattr(Saved, "save", save)
    monkeypatch.setattr(Saved, "load", logging)
    assert in_two(lambda: main(**elsewhere(broken))) == [0, 0] and (tmp_path / "loaded").read_text() == "2 2 None None "
    for name in ("models/3.safetensors", "models/4.safetensors", "curves.csv", "staleness.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@linux
def test_a_stage_becomes_its_launcher_and_when_that_is_killed_no_process_is_left(tmp_path):
    """The stage's own command under torchrun, until the first epochs are saved."""
    paths = write_inputs(tmp_path, "simclr", pretrain={"processes": 2, "epochs": 10**6})
    command = [sys.executable, "-m", "stages.pretrain.simclr", *(word for name, path in paths.items() for word in ("--" + name, path))]
    environment = {**os.environ, "PRETRAIN_LAUNCHER": f"{shlex.quote(sys.executable)} -m torch.distributed.run --nproc-per-node 2"}
    launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "resume").glob("*.safetensors")):
        assert launcher.poll() is None
        time.sleep(0.02)
    workers = psutil.Process(launcher.pid).children(recursive=True)
    launcher.kill()
    launcher.wait()
    assert len(workers) >= 2 and psutil.wait_procs(workers, timeout=10)[1] == [] and not (tmp_path / "models").exists()
