"""Command line of a stage: every parameter of its `main` is a path (or a name) given by dvc.yaml as `--name value`."""
import argparse
import ctypes
import errno
import inspect
import os
import signal
import sys

MEND = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space", errno.EFBIG: "free some space, or raise the limit on the size of a file",
        errno.EROFS: "make it writable", errno.EACCES: "make it accessible to you", errno.EPERM: "make it accessible to you",
        errno.ENOENT: "`dvc repro` writes what is missing", errno.ENOTDIR: "a file lies where a folder is needed; move it away",
        errno.EISDIR: "a folder lies where a file is needed; move it away"}

UNTOUCHED = "Earlier results are untouched;"


class Refused(Exception):
    """Input that a person has to mend; its message is one line naming the file or key, the value and what is allowed."""


def run(main):
    """Call `main` with the command line's values; a refusal, a failing file or Ctrl-C ends in one line and exit code 1."""
    die_with_parent()
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[main.__module__]), allow_abbrev=False)
    for name in inspect.signature(main).parameters:
        parser.add_argument("--" + name.replace("_", "-"), required=True)
    arguments = vars(parser.parse_args())
    if fault := told(main, arguments):
        sys.exit(fault)


def told(main, arguments):
    """Call `main`; what went wrong, in a line for a person, or None. An error of the program itself is raised."""
    try:
        main(**arguments)
    except Refused as refusal:
        return f"error: {refusal}"
    except OSError as failure:
        if failure.filename is None:
            raise
        return f"error: {failure.filename}: {failure.strerror}. {UNTOUCHED} {MEND.get(failure.errno, 'mend it')} and run `dvc repro` again"
    except (MemoryError, RuntimeError) as failure:
        if not isinstance(failure, MemoryError) and not any(words in str(failure) for words in ("out of memory", "allocate memory")):  # PyTorch's
            raise
        why = (str(failure) or "no details").splitlines()[0]
        return f"error: out of memory ({why}). {UNTOUCHED} use smaller batches or fewer images"
    except KeyboardInterrupt:
        return "interrupted: nothing half-written is kept; `dvc repro` goes on from the last finished stage and the last saved epoch"


def die_with_parent():
    """No stage outlives the dvc that started it and no worker its stage: a second `dvc repro` would race with it. Linux only.

    A process that leads no session shares that of the parent which started it; a parent in another session has adopted it,
    so the real one died before the signal was asked for.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getsid(os.getppid()) != os.getsid(0) != os.getpid():
            os._exit(1)
