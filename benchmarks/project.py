"""A clone of the project with other parameters, and what a command in it costs: seconds, anonymous memory, processor seconds of workers."""
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from dvc.repo import Repo

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]
from conftest import call, copy_project, dump_yaml, load_yaml  # noqa: E402
from test_dvc import imports  # noqa: E402

__all__ = ["call", "commands", "imports", "project", "spend"]
EVERY = 0.05  # seconds between two looks at the processes


@contextlib.contextmanager
def project(change):
    """A clone without results and with an empty cache, its parameters changed by `change`, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        copy_project(Path(folder))
        Path(folder, "dvc.lock").unlink(missing_ok=True)
        params = load_yaml(Path(folder, "params.yaml"))
        params["datasets"] = {name: entry for name, entry in params["datasets"].items() if Path(folder, entry["raw"]).exists()}
        change(params)
        dump_yaml(params, Path(folder, "params.yaml"))
        call("git", "init", "-q", "-b", "main", cwd=folder)
        yield folder


def commands(folder):
    """{stage: its command}"""
    return {stage.name: stage.cmd for stage in Repo(folder).index.stages}


@dataclass
class Spent:
    seconds: float
    together: float = 0  # MB of anonymous memory, the most that all processes had at a time
    alone: float = 0  # the most that one process had
    workers: dict = field(default_factory=dict)  # command -> processor seconds of the workers that it forked
    stages: dict = field(default_factory=dict)  # command -> seconds that it ran


def spend(command, folder):
    """Run a command in a clone: what it Spent. Raises RuntimeError with what it said, if it fails."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "DVC_NO_ANALYTICS": "1",
                   **{f"GIT_{role}_{what}": "b@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
    with tempfile.TemporaryFile("w+") as said:
        spent, workers, seen, started = Spent(0), {}, {}, time.monotonic()
        process = subprocess.Popen(shlex.split(command), cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        while process.poll() is None:
            look(process.pid, spent, workers, seen)
            time.sleep(EVERY)
        spent.seconds = time.monotonic() - started
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{command} ended with {process.returncode}\n{said.read()[-2000:]}")
    for (line, *_), seconds in workers.items():
        spent.workers[line] = spent.workers.get(line, 0) + seconds
    spent.stages = {line: last - first for line, (first, last) in seen.items()}
    return spent


def look(pid, spent, workers, seen):
    """One look at a process and all that come from it. A stage is what `python -m stages.` runs; a worker is its fork, with its command line."""
    lines, anonymous = {}, [0]
    with contextlib.suppress(psutil.Error):
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                words = process.cmdline()
                line = lines[process.pid] = " ".join(words)
                anonymous.append(anonymous_memory(process.pid))
                if words[1:2] != ["-m"] or not words[2].startswith("stages."):
                    continue
                if lines.get(process.ppid()) == line:
                    workers[line, process.pid, process.create_time()] = sum(process.cpu_times()[:2])
                else:
                    seen[line] = [seen.get(line, [time.monotonic()])[0], time.monotonic()]
    spent.together, spent.alone = max(spent.together, sum(anonymous)), max(spent.alone, *anonymous)


def anonymous_memory(pid):
    """MB of memory of a process that is no page of a file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0
