"""Seeds in parallel: forked one-thread processes, so that neither result nor bytes depend on the number of cores."""
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from stages.lib.stage import Refused, die_with_parent

_progress = None
_work = None  # inherited by the forked workers: a closure cannot be sent to them


def over_seeds(work, seeds, steps, label):
    """[work(seed) for seed in seeds], in processes as `workers_for` has them; a bar over `steps` steps per seed on a terminal.

    The first worker that raises ends the others, and its exception is raised here once all are gone. Fork before the first tensor operation.
    """
    global _work
    _work = work
    context = multiprocessing.get_context("fork")
    bar = tqdm(total=steps * len(seeds), desc=label, disable=None, leave=False, file=sys.stderr)
    queue = None if bar.disable else context.SimpleQueue()
    listener = threading.Thread(target=_listen, args=(queue, bar), daemon=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = workers_for(len(seeds), cores)
    sys.stdout.flush()
    with ProcessPoolExecutor(processes, context, _start, (queue, os.getpid())) as pool:
        try:
            futures = [pool.submit(_call, seed) for seed in seeds]
            if queue:
                listener.start()
            wait(futures, return_when=FIRST_EXCEPTION)
            return [future.result() for future in futures if future.done()]  # all of them, or one raises
        except BrokenProcessPool:
            pool.shutdown()
            raise Refused(f"{label}: a worker process was killed (out of memory?); nothing was written") from None
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            if queue:
                queue.put(None)
            if listener.is_alive():
                listener.join()
            bar.close()


def workers_for(count, cores):
    """How many processes do `count` pieces of work: one a core, and a few more where these few, left over, would leave most cores idle at the end.

    Five pieces on two cores take three rounds of two processes, or two and a half of three that share the cores.
    """
    left = count % cores
    return min(count, cores + left if count < 4 * cores and 2 * left <= cores else cores)


def in_turn(work, seeds, steps, label, silent):
    """[work(seed) for seed in seeds] in this process, which does each of them together with others; the bar, unless `silent`."""
    global _progress
    keep_freed_memory()
    with tqdm(total=steps * len(seeds), desc=label, disable=silent or None, leave=False, file=sys.stderr) as bar:
        _progress = None if bar.disable else SimpleNamespace(put=lambda message: _move(bar, *message))
        return [work(seed) for seed in seeds]


def _call(seed):
    """The work, after which a worker that was asked to end ends: waiting for another seed it would hear nobody, and its parent would wait for ever."""
    try:
        signal.signal(signal.SIGTERM, _end)
        try:
            return _work(seed)
        finally:
            if signal.signal(signal.SIGTERM, signal.SIG_DFL) == signal.SIG_IGN:  # asked, whatever became of the exception
                raise SystemExit
    except SystemExit:  # what was half written is gone by now
        os._exit(1)


def _end(*_):
    """Asked by the parent to end: unwind, so that the file that is being written is taken back; once, whatever else is asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def tick(steps=1, **shown):
    """Called by a worker: move the bar by `steps` and show the values."""
    if _progress:
        _progress.put((steps, shown))


def _start(queue, parent):
    global _progress
    _progress = queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends its workers
    die_with_parent()
    if os.getppid() != parent:  # it died before that
        os._exit(1)
    keep_freed_memory()
    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def keep_freed_memory():
    """Let glibc keep what is freed, for the next tensor, instead of giving it back to the kernel, which hands it out again page by page.

    A training step at 16 pixels made a thousand page faults, a quarter of its time. Elsewhere than on glibc: nothing.
    """
    if hasattr(allocator := ctypes.CDLL(None), "mallopt"):
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            allocator.mallopt(option, 32 << 20)


def _listen(queue, bar):
    while (message := queue.get()) is not None:
        _move(bar, *message)


def _move(bar, steps, shown):
    bar.set_postfix(shown, refresh=False)
    bar.update(steps)
