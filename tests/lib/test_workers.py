"""How many workers there are, that each ends when asked, and what one leaves behind: nothing half, and its memory for its own next tensor."""
import ctypes
import multiprocessing
import os
import signal
import sys

import pytest
from conftest import ROOT, call

from stages.lib import workers
from stages.lib.workers import workers_for

glibc = pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc alone is asked to keep memory")


@pytest.mark.parametrize("count, cores, workers", [(5, 2, 3), (3, 2, 3), (4, 2, 2), (1, 2, 1), (9, 2, 2), (5, 16, 5), (20, 16, 20), (31, 16, 16)])
def test_pieces_that_would_be_left_over_get_workers_of_their_own_if_they_are_few(count, cores, workers):
    assert workers_for(count, cores) == workers

SEEDS = """
import os, sys, time
from pathlib import Path
from stages.lib.stage import Refused
from stages.lib.tables import replacing
from stages.lib.workers import over_seeds

os.sched_getaffinity = lambda process: {0, 1}
folder = Path(sys.argv[1])

def work(seed):
    (folder / f"begun-{seed}").touch()
    if seed == 0:
        while not (folder / ".1.partial").exists():
            time.sleep(0.01)
        raise Refused("the first seed failed")
    with replacing(folder / str(seed)) as file:
        file.write("half")
        file.flush()
        time.sleep(60)

try:
    over_seeds(work, range(6), 0, "seeds")
except Refused as refusal:
    print(refusal)
"""


def test_a_failing_seed_ends_the_others_which_leave_no_half_file(tmp_path):
    """Of six seeds on two cores: 0 fails while 1 writes; its worker may begin 2 before it is ended, nobody begins 3."""
    told = call(sys.executable, "-c", SEEDS, tmp_path, cwd=ROOT).stdout
    assert told == "the first seed failed\n"
    assert {path.name for path in tmp_path.iterdir()} - {"begun-2"} == {"begun-0", "begun-1"}


QUICK = """
import os
from stages.lib.stage import Refused
from stages.lib.workers import over_seeds

os.sched_getaffinity = lambda process: set(range(8))

def work(seed):
    raise Refused("at once")

for _ in range(4):
    try:
        over_seeds(work, range(8), 0, "seeds")
    except Refused as refusal:
        print(refusal)
"""


def test_seeds_that_fail_at_once_say_nothing_but_their_reason():
    """Of eight workers some are ended while they still begin."""
    done = call(sys.executable, "-c", QUICK, cwd=ROOT)
    assert done.stdout == "at once\n" * 4 and done.stderr == ""


def sleeps_on(seed):
    """Work that hears of its end, in a place that swallows what is raised (a callback, a finalizer), and goes on."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        return seed


def raises(seed):
    raise ValueError(seed)


@pytest.mark.parametrize("work", [int, raises], ids=["done", "failed"])
@pytest.mark.parametrize("moment", ["before the work", "after the work"])
def test_a_worker_ends_when_asked_at_any_moment(monkeypatch, work, moment):
    """It must not come back for another seed, deaf to signals: where all share one queue the stage would wait for it for ever."""
    def ask(number, handler, truly=signal.signal):
        if moment == "after the work" and (number, handler) == (signal.SIGTERM, signal.SIG_DFL):
            os.kill(os.getpid(), signal.SIGTERM)
        before = truly(number, handler)
        if moment == "before the work" and handler == workers._end:
            os.kill(os.getpid(), signal.SIGTERM)
        return before
    monkeypatch.setattr(workers.signal, "signal", ask)
    assert ended(monkeypatch, work) == 1


def test_a_worker_that_was_asked_in_vain_ends_after_its_work(monkeypatch):
    assert ended(monkeypatch, sleeps_on) == 1


def ended(monkeypatch, work):
    """How a process ends that calls a worker's `_call` and would then come back for more."""
    def process():
        try:
            workers._call(1)
        finally:
            os._exit(7)
    monkeypatch.setattr(workers, "_work", work)
    forked = multiprocessing.get_context("fork").Process(target=process)
    forked.start()
    forked.join(30)
    forked.kill()
    return forked.exitcode


SLOW = """
import multiprocessing, os, time
from stages.lib.stage import Refused
from stages.lib.workers import over_seeds

os.sched_getaffinity = lambda process: {0, 1}

def work(seed):
    try:
        time.sleep(0.3 if seed else 60)
        raise Refused(f"seed {seed} failed")
    finally:
        time.sleep(0.5)

try:
    over_seeds(work, [0, 1], 0, "seeds")
except Refused as refusal:
    print(refusal, multiprocessing.active_children())
"""


def test_the_first_seed_that_fails_is_raised_without_waiting_for_those_before_it_and_when_all_workers_are_gone():
    assert call(sys.executable, "-c", SLOW, cwd=ROOT).stdout == "seed 1 failed []\n"


FAULTS = """
import ctypes, resource, sys
import numpy as np
from stages.lib.workers import keep_freed_memory

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of 4 kB, which can be counted
if sys.argv[1] == "keep":
    keep_freed_memory()

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        [np.ones(2**17) for _ in range(12)]  # 12 MB, 3072 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(3)
print(faults(20))
"""


@glibc
def test_memory_that_was_freed_is_used_again_without_asking_the_kernel_for_its_pages():
    """Twenty times 12 MB are 61440 pages of 4 kB; kept, a handful."""
    kept, given_back = (int(call(sys.executable, "-c", FAULTS, how, cwd=ROOT).stdout) for how in ("keep", "give"))
    assert kept < 200 < 20000 < given_back
