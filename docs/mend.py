"""What a kill can leave of DVC's own files: half a dvc.lock, half a .dvc/tmp/rwlock, or one that names dead processes. `make repro` mends them first.

DVC writes these two in place, not by a new name. Neither holds a result: without an entry in dvc.lock a stage is taken from the
run cache or run again, and rwlock only says which process uses which path (DVC itself removes a dead one when it is in its way).
"""
import contextlib
import json
import subprocess
import time
from pathlib import Path

import psutil
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


def mend(root):
    """Names of the files that were mended: rwlock is removed, dvc.lock taken from the last commit, or removed if it is in none."""
    mended = []
    lock, rwlock = root / "dvc.lock", root / ".dvc/tmp/rwlock"
    if lock.exists() and not is_lock(lock):
        committed = subprocess.run(["git", "show", "HEAD:./dvc.lock"], cwd=root, capture_output=True)
        lock.unlink()
        if not committed.returncode:
            lock.write_bytes(committed.stdout)
        mended.append("dvc.lock")
    if rwlock.exists() and is_stale(rwlock):
        time.sleep(1)  # a dvc at work may just be writing it
        if rwlock.exists() and is_stale(rwlock):
            rwlock.unlink()
            mended.append(".dvc/tmp/rwlock")
    return mended


def is_lock(path):
    """Whether DVC can read it: each stage has its command, each path its hash."""
    with contextlib.suppress(YAMLError, UnicodeDecodeError, AttributeError, TypeError, KeyError):
        stages = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))["stages"].values()
        return all(stage["cmd"] and {"path", "hash", "md5"} <= set(entry) for stage in stages for kind in ("deps", "outs") for entry in stage.get(kind, []))
    return False


def is_stale(path):
    """Whether it is unreadable, or names processes none of which is a dvc that lives."""
    try:
        modes = json.loads(path.read_text() or "{}").values()
        users = [user for paths in modes for found in paths.values() for user in (found if isinstance(found, list) else [found])]
        return bool(users) and not any(is_dvc(int(user["pid"])) for user in users)
    except (ValueError, AttributeError, TypeError, KeyError):
        return True


def is_dvc(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return any("dvc" in word for word in psutil.Process(pid).cmdline())
    return False


if __name__ == "__main__":
    for name in mend(Path(__file__).parents[1]):
        print(f"{name} was left by a dvc that was killed and is mended; no result is lost")
