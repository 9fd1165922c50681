"""A toy copy of the project, reproduced once for all tests that read it."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from filelock import FileLock
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
os.environ.pop("PRETRAIN_LAUNCHER", None)  # of the person who tests
yaml = YAML()


def load_yaml(path):
    return yaml.load(Path(path).read_text(encoding="utf-8"))


def dump_yaml(value, path):
    with open(path, "w", encoding="utf-8") as file:
        yaml.dump(value, file)


def shrink(params):
    """The default parameters at toy size: the same keys, a few seconds of training."""
    params["replicates"] = 2
    params["watch"] = 20
    shapes = params["datasets"]["shapes"]
    shapes["images"]["per_kind"] = 12
    shapes["split"] |= {"train": 42, "val": 12, "test": 18}
    params["runs"] = {name: params["runs"][name] for name in ("untrained", "simclr_keep", "simclr_swap", "moco_swap", "vicreg_swap", "supcon_clusters")}
    params["pretrain"] |= {"epochs": 2, "batch_size": 16}
    params["probe"]["C"] = [0.1, 1]
    params["preview"]["images"] = 2
    params["extract"]["transformed"] = 20
    params["finetune"] |= {"labels": 12, "steps": 2, "batch_size": 6, "lr": [0.001]}
    params["probe"] |= {"episodes": 2, "shots": [1]}
    for block, kept in (("interventions", ("color", "camera")), ("transformations", ("swap", "rotation")),
                        ("claims", ("keep_lifts_no_main", "swap_lifts_main", "swap_hides_color", "simclr_does_not_collapse"))):
        params[block] = {name: params[block][name] for name in kept}
    params["transfers"] = {name: entry for name, entry in params["transfers"].items() if entry["to"] == "shapes"}
    for name in list(params["datasets"]):
        if name != "shapes":
            del params["datasets"][name]
    return params


def copy_project(folder):
    """The tracked and the not ignored files of this project, as they are now, in `folder`; without a person's own pictures, which DVC tracks."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file() and not (name.startswith("data/raw/") and name.endswith(".dvc")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)


def call(*command, cwd, check=True, **environment):
    """Run a command as a person would in the project's environment; output as text.

    Its output goes through files: a process that it leaves behind, as `dvc queue start` does, keeps a pipe open and would hold up who reads it.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
                   "GIT_COMMITTER_EMAIL": "t@example.org", "DVC_NO_ANALYTICS": "1", **environment}
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        done = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
        stdout.seek(0), stderr.seek(0)
        done.stdout, done.stderr = stdout.read(), stderr.read()
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done


@pytest.fixture(scope="session")
def toy(tmp_path_factory, worker_id):
    """A clone at toy size in a folder with a space and letters beyond ASCII, reproduced and committed. Read it, do not change it.

    Of several processes of pytest the first one makes it for all.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "toy" / "zwei Ansichten 两视图"
    with FileLock(folder.parent.with_suffix(".lock")):
        if not (folder.parent / "made").exists():
            make_toy(folder)
            (folder.parent / "made").touch()
    return folder


def make_toy(folder):
    folder.mkdir(parents=True)
    copy_project(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    dump_yaml(shrink(load_yaml(ROOT / "params.yaml")), folder / "params.yaml")
    call("git", "init", "-q", "-b", "main", cwd=folder)
    call("dvc", "repro", cwd=folder, PYTHONHASHSEED="1")
    call("git", "add", "-A", cwd=folder)
    call("git", "commit", "-qm", "toy", cwd=folder)


@pytest.fixture
def clone(toy, tmp_path):
    """A copy of the toy project, results and cache included, that a test may change."""
    folder = tmp_path / "clone"
    shutil.copytree(toy, folder, symlinks=True)
    return folder
