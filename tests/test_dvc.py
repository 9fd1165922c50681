"""The DAG is exact: what a stage imports is what it depends on, it reads and writes just that, and a parameter reruns just who uses it."""
import ast
import copy
import functools
import hashlib
import itertools
import os
import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dvc.utils.serialize._yaml
import pytest
from conftest import ROOT, call, dump_yaml, load_yaml
from dvc.repo import Repo

from stages.lib.schema import RECIPES
from stages.plan import main as plan


def imports(path):
    """The files of this project that a Python file imports, directly or not, itself included; relative to the root."""
    found, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            files = [name.replace(".", "/") + ".py" for name in names if name.split(".")[0] == "stages"]
            waiting += [file for file in files if (ROOT / file).is_file()]
    return found


def stages(folder=ROOT):
    """{name: stage} as DVC itself resolves dvc.yaml."""
    return {stage.addressing: stage for stage in Repo(str(folder)).index.stages}


def paths(things, folder):
    """Paths of DVC's deps or outs relative to the project; parameters are not paths."""
    return {Path(thing.fs_path).relative_to(folder).as_posix() for thing in things if thing.def_path != "params.yaml"}


def script(stage):
    return re.search(r"python -m (\S+)", stage.cmd).group(1).replace(".", "/") + ".py"


@pytest.mark.parametrize("name", sorted(stages()))
def test_code_deps_of_a_stage_are_its_import_closure(name):
    stage = stages()[name]
    declared = {path for path in paths(stage.deps, ROOT) if path.startswith("stages/") and path.endswith(".py")}
    assert declared == imports(script(stage))


def test_no_stage_imports_a_stage_and_lib_knows_no_path():
    for file in ROOT.glob("stages/**/*.py"):
        others = imports(file.relative_to(ROOT).as_posix()) - {file.relative_to(ROOT).as_posix()}
        assert all(other.startswith("stages/lib/") for other in others), file
        assert not re.search(r"[\"'](data|metrics|models)/(?!raw)", file.read_text(encoding="utf-8")), file


def test_a_stage_needs_only_its_deps_writes_only_its_outs_and_writes_the_same_bytes_elsewhere(toy, tmp_path):
    """Each stage again, in a folder that holds its deps alone, with another hash seed and on one core where the system can say so."""
    everything = files(toy)

    def again(name, stage, core):
        folder = tmp_path / re.sub(r"\W", "_", name)
        for path in paths(stage.deps, toy) | {"params.yaml"}:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (toy / path).is_dir() else shutil.copy2)(toy / path, target)
        given = files(folder)
        one_core = ["taskset", "-c", str(core)] if shutil.which("taskset") else []
        call(*one_core, *shlex.split(stage.cmd), cwd=folder, PYTHONHASHSEED="2", PYTHONDONTWRITEBYTECODE="1")
        written = {path: code for path, code in files(folder).items() if given.get(path) != code}
        declared = {path: code for out in paths(stage.outs, toy) for path, code in everything.items() if path == out or path.startswith(out + "/")}
        shutil.rmtree(folder)
        return name, written, declared

    cores = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else [0]
    with ThreadPoolExecutor(len(cores)) as pool:
        for name, written, declared in pool.map(again, *zip(*stages(toy).items(), strict=True), itertools.cycle(cores)):
            assert written == declared, name


def test_the_reference_encoder_is_what_simclr_swap_trains():
    artifact = Repo(str(ROOT)).artifacts.read()["dvc.yaml"]["reference-encoder"]
    assert artifact.type == "model" and artifact.path in paths(stages()["pretrain@simclr_swap"].outs, ROOT)


def files(folder):
    return {path.relative_to(folder).as_posix(): hashlib.md5(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*"))
            if path.is_file() and not {".git", ".dvc", ".resume"} & set(path.parts) and path.name != ".gitignore"}


def leaves(tree, path=()):
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def users(path, params):
    """The stages, beyond plan, whose command, parameters or plan hold the leaf at `path`: the table of the README as code."""
    top, name = path[0], path[1] if len(path) > 1 else None
    runs, used = params["runs"], params["dataset"]
    transfers, mined = [f"transfer@{transfer}" for transfer in params["transfers"]], [f"mine@{name}" for name in params["mined"]]

    def reading(key):  # runs whose objective reads the key, and that do not set this very leaf themselves
        found = []
        for run, entry in runs.items():
            own = entry.get(key)
            for part in path[1:]:
                own = own.get(part) if isinstance(own, dict) else own
            field = RECIPES[entry["objective"]].model_fields.get(key)
            inner = getattr(field and field.annotation, "model_fields", None)
            if field and own is None and (inner is None or path[1] in inner):
                found.append(f"pretrain@{run}")
        return [*found, *of_plans(*(user.split("@")[1] for user in found))]

    def of_plans(*changed):  # what reads the plans of these runs besides their training
        return ["judge", "report", *(["explain"] if {params["explain"]["simclr"], params["explain"]["moco"]} & set(changed) else [])] if changed else []

    def each(*groups):
        return [f"{group}@{run}" for group in groups for run in runs]

    if top == "datasets":
        block = path[2]
        if block in ("images", "raw"):
            return [f"dataset@{name}", *(["intervene"] if name == used and block == "images" else [])]
        stages = [f"split@{name}"]
        if name == used and block == "main_factor":
            stages += [f"relate@{relation}" for relation in params["relations"]]
            stages += each("finetune")
        if name == used and path[-1] == "hold_out":
            stages += [*each("probe"), "probe_pixels"]
        return stages + (["judge", "plot", "report"] if name == used and block != "split" else [])
    return {
        "temperature": lambda: reading("temperature"),
        "device": lambda: [*reading("device"), *each("finetune")],
        "watch": lambda: reading("watch"),
        "encoder": lambda: reading("encoder"),
        "resume": lambda: reading("resume"),
        "pretrain": lambda: reading("pretrain"),
        "negatives": lambda: reading("negatives"),
        "moco": lambda: reading("moco"),
        "vicreg": lambda: reading("vicreg"),
        "mined": lambda: [f"mine@{name}", "report"],
        "explain": lambda: ["explain"],
        "illustrate": lambda: ["illustrate"],
        "seed": lambda: [*each("pretrain", "extract", "probe", "map", "geometry", "finetune"), *transfers, *mined, "probe_pixels", *of_plans(*runs)],
        "replicates": lambda: [*each("pretrain", "extract", "probe", "geometry", "finetune"), *transfers, *mined, *of_plans(*runs)],
        "views": lambda: ["preview", "report", *(f"pretrain@{run}" for run, entry in runs.items() if entry.get("views") == name),
                          *of_plans(*(run for run, entry in runs.items() if entry.get("views") == name))],
        "relations": lambda: [f"relate@{name}", "report"],
        "extract": lambda: [*each("extract"), *(transfers if name == "batch_size" else [])],
        "interventions": lambda: ["intervene", "report"],
        "transformations": lambda: each("extract"),
        "runs": lambda: [f"pretrain@{name}", "plot", *of_plans(name)],
        "probe": lambda: [*each("probe"), "probe_pixels", *(transfers if name in ("k", "C", "max_iter") else [])],
        "geometry": lambda: each("geometry"),
        "finetune": lambda: each("finetune"),
        "transfers": lambda: [f"transfer@{name}", "report"],
        "judge": lambda: ["judge", "report", *(transfers if name == "confidence" else [])],
        "claims": lambda: ["judge", "report"],
        "preview": lambda: ["preview"],
        "map": lambda: each("map"),
        "page": lambda: ["report"],
        "plot": lambda: ["plot"],
    }[top]()


SHARES = ("swap", "grayscale", "flip", "watermark", "probability", "debias", "filter_above")  # 1 and 0 are their ends
OTHER = {"methods": ["pca"], "learn_temperature": [0.1, 1], "simclr": "simclr_keep", "device": "cuda", "raw": "data/raw/other",
         "main_factor": "scale", "second_factor": "x", "norm": "group", "head": "linear",
         "schedule": "cosine", "text": "Another text", "is": "below", "probe": "linear", "space": "z", "factor": "x", "kind": "instance",
         "C": [0.5], "allow": ["seed"], "layers": [[8, 2], [8, 2]], "right": 0.5, "confidence": 0.9, "epochs": 3, "train": 41,
         "hold_out": [{"shape": "circle", "color": "red"}], "shapes": ["circle", "square", "ring"], "slices": ["x"], "recall": [2], "shots": [2], "to": 0.5}


def change(params, path):
    """Give the leaf at `path` another valid value and return the paths of all that had to change with it: none where it cannot change alone."""
    also = []
    node = params
    for key in path[:-1]:
        node = node[key]
    key, value = path[-1], node[path[-1]]
    if path[-2:-1] == ("split",) and key in ("train", "val", "test"):  # the three sum to all images
        node[key] += 1
        node["val" if key != "val" else "test"] -= 1
    elif key == "per_kind":
        node[key] += 1
        params["datasets"][path[1]]["split"]["train"] += 6
        also = [(*path[:2], "split", "train")]
    elif path[0] == "runs" and key in ("views", "relation", "objective"):
        names = {"views": params["views"], "relation": params["relations"], "objective": []}[key]
        others = [name for name in names if name != value]
        if not others:
            return []
        node[key] = others[0]
    elif (path in (("dataset",), ("encoder", "name"), ("explain", "moco")) or key in ("run", "source", "beside", "kind") or path[0] == "transfers"
          or (path[0] == "claims" and node.get("probe") == "spread")):
        return []
    elif key in (*SHARES, "warmup") and isinstance(value, int):
        node[key] = 0.5
    elif path[0] == "transformations":
        node[key] = [{"gamma": 0.5}]
    elif path[0] == "interventions" and key == "factor":
        node[key] = "y"
    elif key in OTHER:
        node[key] = OTHER[key] if OTHER[key] != value else {"schedule": "constant", "is": "above", "space": "h", "probe": "knn"}.get(key)
    elif isinstance(value, bool):
        node[key] = not value
    elif isinstance(value, int):
        node[key] = value + 1
    elif isinstance(value, float):
        node[key] = value * 0.9
    elif isinstance(value, list):
        node[key] = [value[0] * 0.9, *value[1:]] if value[0] else [value[0], value[1] * 0.9, *value[2:]]
    else:
        raise AssertionError(f"no rule to change {path}")
    return [path, *also]


def test_changing_any_leaf_of_params_makes_just_its_users_stale(clone, monkeypatch):
    """For every leaf: the plan stage, then what DVC's own status calls changed is what the table says, and never nothing."""
    monkeypatch.chdir(clone)
    parse = functools.lru_cache(dvc.utils.serialize._yaml.parse_yaml)  # DVC parses the same text for every stage
    monkeypatch.setattr(dvc.utils.serialize._yaml, "parse_yaml", lambda *arguments: copy.deepcopy(parse(*arguments)))
    original, skipped, wrong = load_yaml(clone / "params.yaml"), [], {}
    assert Repo(str(clone)).status() == {}
    for path in leaves(original):
        params = copy.deepcopy(original)
        touched = change(params, path)
        if not touched:
            skipped.append(path)
            continue
        dump_yaml(params, clone / "params.yaml")
        plan(str(clone / "params.yaml"), str(clone / "data/plans"))
        changed = set(Repo(str(clone)).status()) - {"plan"}
        expected = {user for one in touched for user in users(one, params)}
        if changed != expected or not changed:
            wrong[".".join(path)] = {"stale, but no user": changed - expected, "users, but not stale": expected - changed}
    assert not wrong
    assert {path[-1] for path in skipped} <= {"dataset", "source", "run", "objective", "relation", "views", "beside", "kind", "name", "moco", "to",
                                              "probe", "space"}


def test_a_comment_reruns_nothing_and_editing_plot_trains_nothing(clone, monkeypatch):
    monkeypatch.chdir(clone)
    with open(clone / "params.yaml", "a", encoding="utf-8") as file:
        file.write("\n# a comment\n")
    assert Repo(str(clone)).status() == {}
    with open(clone / "stages/plot.py", "a", encoding="utf-8") as file:
        file.write("# another\n")
    assert set(Repo(str(clone)).status()) == {"plot"}
