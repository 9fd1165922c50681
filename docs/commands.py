"""Every command of the README and the docs, run one after the other in a clone at small size; exit code 1 if one fails.

python -m docs.commands [PAGE ...]; without a page all of them. Commands are the lines of blocks marked `sh` and code in the text that
begins with a tool; one that occurs again is not run again. ELSEWHERE holds those that are not run here, with the reason.
"""
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
from dvc.utils.hydra import apply_overrides
from moto.server import ThreadedMotoServer

from docs.clone import ROOT, told

PAGES = ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")), "benchmarks/README.md"]
TOOLS = ("make", "python", "ruff", "dvc", "git", "gto", "pip")
NAME = r"(git|gto|pip|dvc( exp| queue| metrics| plots| params| remote| artifacts)?) \S+"  # code in the text that only names a command, such as `dvc push`
SMALL = ["replicates=2", "pretrain.epochs=1", "watch=20", "extract.transformed=20", "probe.C=[0.1,1]", "probe.episodes=2", "probe.shots=[1]",
         "pretrain.batch_size=40", "finetune.steps=2", "finetune.lr=[0.001]", "explain.step=5",
         *(f"~runs.{run}" for run in ("moco_keep", "vicreg_swap", "invariance_alone", "supcon", "supcon_clusters"))]

SWEEP = "as `make sweep`, which is run here, with another name; tests/test_sweeps.py has each of its settings checked by the plan stage"
LONG = "an hour or more; it is run by hand before its page of results is changed"
ELSEWHERE = {
    "make commands": "this",
    "make test": "runs the tests; .ci/run runs it",
    "make tables": "half an hour at full size, and it writes docs/tables.md",
    "dvc exp run -S replicates=10": "`make tables` runs it",
    "dvc exp run -S dataset=digits": "`make tables` runs it, and it is run here with a name",
    "dvc exp run -S dataset=photos": "run here with a name, once docs/own-images.md has made its folder and its entry",
    "dvc exp run -S dataset=shapes_marked": "run here with a name",
    "make sweeps": SWEEP,
    **{f"make sweep NAME={name}": SWEEP for name in ("jitter", "crop", "grayscale", "momentum", "queue")},
    "make bench": LONG,
    "make bench-long": LONG,
    **{f"python -m benchmarks.pretrain {words}--device cuda": "needs a GPU" for words in ("", "resnet ")},
    "python -m benchmarks.pretrain resnet": LONG,
    "make soak": LONG,
    "python benchmarks/soak.py --kills 50": LONG,
    "dvc remote modify --local store profile my-profile": "needs an account at Amazon",
    'HOSTS="first second" MASTER=first PRETRAIN_LAUNCHER=./launch.sh dvc exp run -S pretrain.processes=8': "needs two machines",
}
# what stands for a thing that only the reader has: {words of a command: what takes their place}
INSTEAD = {
    "mkdir data/raw/photos": "cp -r data/raw/example data/raw/photos && sed -i 1s/hue/species/ data/raw/photos/factors.csv",
    "$EDITOR": f"{sys.executable} -m docs.commands --edit",
    "/mnt/shared/twoviews": "{folder}/store",
    "https://github.com/you/twoviews": "{folder}/hub.git",
    "https://s3.example.org": "{server}",
}


def commands(text):
    """The commands of a page, in order. A block that begins with `#!` is a file, and what has a placeholder (`<name>`, `...`) is no command."""
    found = []
    for place, part in enumerate(re.split(r"^```(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)):
        if place % 2:
            language, _, body = part.partition("\n")
            found += body.splitlines() if language.strip() == "sh" and not body.startswith("#!") else []
        else:
            codes = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", part)]
            found += [code for code in codes if code.startswith(tuple(f"{tool} " for tool in TOOLS)) and not re.fullmatch(NAME, code)]
    cut = [" ".join(re.split(r"\s#\s", f" {line}")[0].split()) for line in found]
    return [line for line in cut if line and "..." not in line and not re.search(r"<\w+>", line)]


def all_commands(pages):
    """[(page, command)], each command where it occurs first."""
    first = {}
    for page in pages:
        for command in commands((ROOT / page).read_text(encoding="utf-8")):
            first.setdefault(command, page)
    return [(page, command) for command, page in first.items()]


def small_clone(folder):
    """A clone of the last commit at small size with a bare repository for its origin; it uses this project's environment, not its cache."""
    project, hub = folder / "twoviews", folder / "hub.git"
    told("git", "clone", "-q", str(ROOT), str(project), cwd=ROOT)
    for words in (("config", "user.name", "twoviews"), ("config", "user.email", "twoviews@localhost"), ("checkout", "-q", "-B", "main")):
        told("git", *words, cwd=project)
    apply_overrides(project / "params.yaml", SMALL)
    told("git", "commit", "-qam", "Small", cwd=project)
    told("git", "clone", "-q", "--bare", str(project), str(hub), cwd=folder)
    told("git", "remote", "set-url", "origin", str(hub), cwd=project)
    told("git", "push", "-qu", "origin", "main", cwd=project)
    if (ROOT / ".venv").exists():
        (project / ".venv").symlink_to((ROOT / ".venv").resolve())
        os.utime(project / "requirements.lock", (0, 0))  # older than the environment: nothing is to be installed
    return project


def edit(path):
    """What a person does in an editor: the first block of YAML in docs/own-images.md goes under `datasets`."""
    block = re.search(r"^```yaml\n(.*?)^```", (ROOT / "docs/own-images.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1]
    path.write_text(path.read_text(encoding="utf-8").replace("\ndatasets:\n", f"\ndatasets:\n{block}", 1), encoding="utf-8")


def run_all(pages, folder):
    """[(page, command, seconds, exit code)], None for those that run elsewhere; what a command prints is kept, and shown if it fails."""
    project, results = small_clone(folder), []
    if "README.md" not in pages:
        told("make", "repro", cwd=project)  # else the README's own
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it tells every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    os.environ |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1", "PAGER": "cat"}
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="my-bucket")
    exported = {}  # {page: lines}: what a page exports holds for the rest of it
    for page, command in all_commands(pages):
        if command in ELSEWHERE:
            results.append((page, command, None, None))
            continue
        line = "\n".join([*exported.get(page, []), command])
        if command.startswith("export "):
            exported.setdefault(page, []).append(command)
        for words, other in INSTEAD.items():
            line = line.replace(words, other.format(folder=folder, server=address))
        print(f"{page}: {command}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:  # not a pipe, which a process that is left behind (`dvc queue start`) would keep open
            code = subprocess.run(["bash", "-c", line], cwd=project, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
            output.seek(0)
            printed = output.read()
        results.append((page, command, time.monotonic() - start, code))
        if code:
            print(f"{printed[-3000:]}\nended with {code}", flush=True)
    server.stop()
    subprocess.run(["dvc", "queue", "stop", "--kill"], cwd=project)
    return results


def main(pages):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        results = run_all(pages or PAGES, Path(folder))
    print()
    for page, command, seconds, code in results:
        verdict = "elsewhere" if code is None else f"{'FAILED' if code else 'passed'} {seconds:4.0f} s"
        print(f"{verdict:14} {page:20} {command}" + (f"   ({ELSEWHERE[command]})" if code is None else ""))
    failed = sum(bool(code) for *_, code in results)
    print(f"\n{sum(code == 0 for *_, code in results)} passed, {failed} failed, {sum(code is None for *_, code in results)} run elsewhere")
    sys.exit(bool(failed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--edit"]:
        edit(Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
