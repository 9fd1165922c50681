"""Soak: `dvc repro` of the default pipeline, cut to a few epochs, is killed again and again at random moments; what comes after must not differ.

Each round forces two random stages to run, kills dvc, its stage or a worker of it (SIGKILL, or SIGINT as Ctrl-C sends it), looks
for processes that are left, runs `dvc repro` to the end and compares all outputs and dvc.lock with those of the undisturbed run.

    python benchmarks/soak.py --kills 50 --minutes 60
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "docs")]
from conftest import call, copy_project, dump_yaml, load_yaml  # noqa: E402
from mend import mend  # noqa: E402
from test_dvc import files  # noqa: E402


def prepare(folder):
    """A clone of the project whose runs train two seeds for three epochs, saved after each."""
    copy_project(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    params = load_yaml(folder / "params.yaml")
    params["replicates"], params["pretrain"]["epochs"], params["resume"]["every"] = 2, 3, 1
    for run in params["runs"].values():
        run.get("pretrain", {}).pop("epochs", None)
    for name in [name for name in params["datasets"] if name != params["dataset"]]:
        del params["datasets"][name]
    params["transfers"] = {name: transfer for name, transfer in params["transfers"].items() if transfer["to"] in params["datasets"]}
    dump_yaml(params, folder / "params.yaml")
    call("git", "init", "-q", "-b", "main", cwd=folder)


def start(folder, *command, log):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(["dvc", *command], cwd=folder, env={**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}, stdin=subprocess.DEVNULL,
                            stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def family(session):
    """The processes of a session, which all that dvc starts belongs to."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def strike(dvc, target, number):
    """Send the signal; True if there was a process to send it to."""
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if target == "dvc" and number == signal.SIGINT:
            os.killpg(dvc.pid, number)  # Ctrl-C reaches all of the group
        elif target == "dvc":
            os.kill(dvc.pid, number)
        else:
            stages = [child for child in psutil.Process(dvc.pid).children() if "stages." in " ".join(child.cmdline())]
            victims = stages if target == "stage" else [worker for stage in stages for worker in stage.children(recursive=True)]
            if not victims:
                return False
            victims[0].send_signal(number)
        return True
    return False


def one_round(folder, names, before):
    """Kill once and repair: a dict telling what was hit and what was wrong afterwards."""
    chosen = random.sample(names, 2)
    if random.random() < 0.5:
        shutil.rmtree(folder / ".resume", ignore_errors=True)
    target, number = random.choice(["dvc", "stage", "stage", "worker"]), random.choice([signal.SIGKILL, signal.SIGINT])
    if target == "worker":
        number = signal.SIGKILL  # workers leave Ctrl-C to their stage
    with open(folder.parent / "log", "w+") as log:
        dvc = start(folder, "repro", "--force", "--single-item", *chosen, log=log)
        place = random.choice([0, 1, 1, 2, 2])  # before the first stage, or in the first or second
        while dvc.poll() is None and Path(log.name).read_text().count("Running stage") < place:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 3))
        while dvc.poll() is None and not strike(dvc, target, number):
            time.sleep(0.02)
        ended = dvc.poll() is not None
        dvc.wait(600)
        log.seek(0)
        said = log.read()
    deadline = time.monotonic() + 5
    while (left := family(dvc.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    wrong = [f"left behind: {process.pid} {' '.join(process.cmdline())[:80]}" for process in left]
    if "Traceback" in said:
        wrong.append("a traceback: " + said[said.index("Traceback"):][-300:])
    mended = mend(folder)
    done = call("dvc", "repro", cwd=folder, check=False)
    if done.returncode:
        wrong.append(f"dvc repro ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    after = files(folder)
    wrong += [f"differs: {name}" for name in sorted(set(before) | set(after)) if before.get(name) != after.get(name)]
    rwlock = folder / ".dvc/tmp/rwlock"
    if rwlock.exists() and any(json.loads(rwlock.read_text() or "{}").values()):
        wrong.append(f"locked: {rwlock.read_text()[:200]}")
    running = said.count("Running stage")
    return {"target": target, "signal": number.name, "struck": not ended, "stage": chosen[min(running, 2) - 1] if running else "dvc's own start",
            "mended": mended, "wrong": wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="an undisturbed run is left here and taken from here")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = Path(arguments.folder or tempfile.mkdtemp()) / "soak"
    if not (folder / "dvc.lock").exists():
        prepare(folder)
    mend(folder)
    call("dvc", "repro", cwd=folder)
    begun, rounds = time.monotonic(), []
    before = files(folder)
    names = [name for name in load_yaml(folder / "dvc.lock")["stages"] if name != "plan"]
    while sum(one["struck"] for one in rounds) < arguments.kills and time.monotonic() - begun < 60 * arguments.minutes:
        rounds.append(one_round(folder, names, before))
        print(f"{len(rounds):3} {json.dumps(rounds[-1])}", flush=True)
    struck = [one for one in rounds if one["struck"]]
    print(f"{len(struck)} kills ({len(rounds) - len(struck)} more came after the end), {len(before)} files compared after each")
    print("by target and signal:", dict(Counter(f"{one['target']} {one['signal']}" for one in struck)))
    print("mended before dvc could run:", dict(Counter(name for one in rounds for name in one["mended"])))
    print("rounds with something wrong:", sum(bool(one["wrong"]) for one in rounds))


if __name__ == "__main__":
    main()
