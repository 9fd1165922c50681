"""Killed, interrupted, out of space, twice at once: no process is left, one line is said, earlier results stay, and the next run goes on."""
import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, call
from mend import mend
from test_dvc import files, paths, stages

from stages.lib.stage import Refused, told
from stages.lib.tables import replacing
from stages.lib.workers import over_seeds

linux = pytest.mark.skipif(sys.platform != "linux", reason="the signal of a parent's death is Linux's")
STAGE = """
import os, time
from stages.lib.stage import run
from stages.lib.workers import over_seeds

def work(seed):
    os.write(1, b"working\\n")
    time.sleep(60)

def main(seeds):
    over_seeds(work, [1, 2], 1, "sleep")

run(main)
"""


def begin(*command, workers=1):
    """A process in a session of its own, when `workers` of its workers have said that they work.

    It hears Ctrl-C even where the tests themselves run in the background of a shell, which ignores it.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
    for _ in range(workers):
        assert process.stdout.readline() == "working\n", process.stderr.read()
    return process


def left(session):
    """The processes of a session, once none is left or five seconds have passed."""
    for _ in range(100):
        found = [process.pid for process in psutil.process_iter(["status"])
                 if process.info["status"] != psutil.STATUS_ZOMBIE and in_session(process.pid, session)]
        if not found:
            break
        time.sleep(0.05)
    return found


def in_session(pid, session):
    try:
        return os.getsid(pid) == session
    except OSError:
        return False


@linux
def test_a_killed_stage_leaves_no_worker():
    stage = begin(sys.executable, "-c", STAGE, "--seeds", "2")
    assert len(psutil.Process(stage.pid).children(recursive=True)) >= 1
    stage.kill()
    stage.wait()
    assert left(stage.pid) == []


@linux
def test_a_stage_dies_with_the_dvc_that_started_it_and_so_do_its_workers():
    dvc = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STAGE!r}, '--seeds', '2'])"
    parent = begin(sys.executable, "-c", dvc)
    parent.kill()
    parent.wait()
    assert left(parent.pid) == []


@linux
def test_a_stage_whose_dvc_died_while_it_started_ends_before_it_works():
    """The stage waits for its parent's death before it calls `run`, as one does that is still importing."""
    late = "import os, time\nparent = os.getppid()\nprint('working', flush=True)\nwhile os.getppid() == parent: time.sleep(0.01)\n" + STAGE
    dvc = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {late!r}, '--seeds', '2'])"
    parent = begin(sys.executable, "-c", dvc)
    parent.kill()
    assert parent.communicate(timeout=60)[0] == "" and left(parent.pid) == []


@linux
def test_ctrl_c_ends_stage_and_workers_with_one_line():
    stage = begin(sys.executable, "-c", STAGE, "--seeds", "2")
    os.killpg(stage.pid, signal.SIGINT)
    said = stage.communicate(timeout=60)[1]
    assert said.startswith("interrupted: ") and len(said.splitlines()) == 1 and stage.returncode == 1
    assert left(stage.pid) == []


def test_what_a_command_leaves_running_does_not_hold_up_who_called_it():
    left_running = psutil.Process(int(call("sh", "-c", "sleep 60 & echo $!", cwd=ROOT).stdout))
    assert left_running.status() != psutil.STATUS_ZOMBIE
    left_running.kill()


def test_a_worker_that_dies_is_told_in_one_line():
    with pytest.raises(Refused, match="sleep: a worker process was killed"):
        over_seeds(lambda seed: os.kill(os.getpid(), signal.SIGKILL), [1, 2], 1, "sleep")


def test_workers_that_die_while_work_is_still_handed_out_are_told_in_one_line(monkeypatch):
    submit = ProcessPoolExecutor.submit

    def slow(*arguments):
        time.sleep(0.05)
        return submit(*arguments)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", slow)
    with pytest.raises(Refused, match="sleep: a worker process was killed"):
        over_seeds(lambda seed: os.kill(os.getpid(), signal.SIGKILL), range(40), 1, "sleep")


def failing(number):
    def main(path):
        with replacing(path) as file:
            file.write("new")
            raise OSError(number, os.strerror(number))  # as a full disk does, without the file's name
    return main


@pytest.mark.parametrize("number, advice", [(errno.ENOSPC, "free some space"), (errno.EROFS, "make it writable"), (errno.EACCES, "make it accessible")])
def test_a_failing_disk_is_one_line_with_path_and_advice_and_the_file_is_what_it_was(number, advice, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    said = told(failing(number), {"path": str(path)})
    assert said.startswith(f"error: {path}: {os.strerror(number)}") and advice in said and "\n" not in said
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_a_missing_file_a_folder_in_its_place_and_too_little_memory_are_one_line(tmp_path):
    def too_much():
        raise MemoryError

    assert "nothing.csv: No such file" in told(lambda path: Path(path).read_text(), {"path": f"{tmp_path}/nothing.csv"})
    assert "a folder lies where a file is needed" in told(lambda path: Path(path).write_text("x"), {"path": str(tmp_path)})
    assert told(too_much, {}).startswith("error: out of memory")


# In each stage's folder of outputs there is no room; with room again the same command succeeds.
FULL = ["pretrain@simclr_swap", "extract@simclr_swap", "plot", "report"]


@pytest.fixture
def full(tmp_path):
    """A disk of 2 MB, all but a few kB of it taken by a file `ballast` beside a file `earlier`."""
    folder = tmp_path / "full"
    folder.mkdir()
    if sys.platform != "linux" or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not permitted here")
    (folder / "earlier").write_text("result")
    (folder / "ballast").write_bytes(b"0" * (2 * 2**20 - 3 * 4096))
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("stage", FULL)
def test_on_a_full_disk_a_stage_ends_in_one_line_and_works_when_there_is_room(stage, full, toy):
    """The stage's own command, its outputs and saved states on the full disk."""
    found = next(one for one in stages(toy).values() if one.name == stage)
    written = {*paths(found.outs, toy), ".resume"}
    command = [f"{full}/{word}" if word in written else word for word in shlex.split(found.cmd)]
    failed = call(*command, cwd=toy, check=False)
    errors = [line for line in failed.stderr.splitlines() if line.startswith("error: ")]
    assert failed.returncode == 1 and len(errors) == 1 and str(full) in errors[0] and "No space left" in errors[0] and "free some space" in errors[0]
    assert "Traceback" not in failed.stderr and (full / "earlier").read_text() == "result"
    assert not list(full.rglob(".*.partial"))  # none of the other seeds' either, whose workers the first failure ended
    (full / "ballast").unlink()
    assert call(*command, cwd=toy).returncode == 0


@linux
def test_two_dvc_repro_at_once_one_works_and_the_other_says_so(clone):
    """The first is held inside a stage, which waits for someone to close the other end of a pipe."""
    code = clone / "stages/split.py"
    code.write_text(code.read_text().replace("    run(main)", "    open('go').read()\n    run(main)"), encoding="utf-8")
    os.mkfifo(clone / "go")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    first = subprocess.Popen(["dvc", "repro", "split"], cwd=clone, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    gate = os.open(clone / "go", os.O_WRONLY)  # opens when the stage has come so far
    second = call("dvc", "repro", "split", cwd=clone, check=False)
    os.close(gate)
    assert second.returncode and re.search("busy|Unable to acquire lock", second.stdout + second.stderr) and "Traceback" not in second.stderr
    assert first.wait(timeout=120) == 0


def test_half_a_lock_file_is_mended_and_nothing_is_run_again(clone):
    before = files(clone)
    lock = (clone / "dvc.lock").read_bytes()
    (clone / "dvc.lock").write_bytes(lock[: lock.index(b"hash:", len(lock) // 2) + 3])
    (clone / ".dvc/tmp/rwlock").write_text('{"read": ')
    assert mend(clone) == ["dvc.lock", ".dvc/tmp/rwlock"] and mend(clone) == []
    done = call("dvc", "repro", cwd=clone)
    assert "Running stage" not in done.stdout and files(clone) == before


@linux
def test_dvc_killed_in_the_middle_of_training_leaves_no_process_and_the_next_repro_ends_as_if_nothing_had_been(clone):
    before = files(clone)
    shutil.rmtree(clone / ".resume", ignore_errors=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    dvc = subprocess.Popen(["dvc", "repro", "--force", "--single-item", "pretrain@moco_swap"], cwd=clone, env={**os.environ, "PATH": path},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((clone / ".resume").glob("*.safetensors")) and dvc.poll() is None:
        time.sleep(0.01)
    dvc.kill()
    dvc.wait()
    assert left(dvc.pid) == []
    call("dvc", "repro", cwd=clone)
    assert files(clone) == before


def test_a_lock_that_names_only_dead_processes_is_removed_and_one_of_a_living_dvc_stays(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    alive = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "dvc repro"])
    rwlock = tmp_path / ".dvc/tmp/rwlock"
    rwlock.parent.mkdir(parents=True)
    rwlock.write_text(json.dumps({"read": {"a": [{"pid": dead.pid, "cmd": "dvc repro"}]}, "write": {"b": {"pid": alive.pid, "cmd": "dvc repro"}}}))
    assert mend(tmp_path) == [] and rwlock.exists()
    alive.kill()
    alive.wait()
    assert mend(tmp_path) == [".dvc/tmp/rwlock"] and not rwlock.exists()
