"""Nothing that a file holds is ever run, and no name in it leads out of the project."""
import ast
import json
import pickle
import struct

import numpy as np
import pytest
from conftest import ROOT

from stages.lib.checks import load_archive, load_images
from stages.lib.encoder import load_network
from stages.lib.stage import Refused, told
from stages.lib.tables import read_json, read_params, read_table
from stages.plan import main as plan

CODE = [path for folder in ("stages", "docs", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
# called by this name, it can run what a file holds; `load` is judged by its arguments below
FORBIDDEN = {"eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "shelve.open",
             "joblib.load", "dill.load",
             "cloudpickle.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen", "subprocess.getoutput", "pandas.read_pickle",
             "pd.read_pickle", "torch.jit.load", "torch.hub.load", "shutil.unpack_archive", "tarfile.open", "extractall"}


def called(node):
    return ast.unparse(node.func)


def unsafe(source):
    """Calls in a Python source that could run what a file holds."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name, words = called(node), {word.arg: ast.unparse(word.value) for word in node.keywords}
        bad = (name in FORBIDDEN or name.rsplit(".", 1)[-1] == "extractall" or name == "torch.load" and words.get("weights_only") != "True"
               or words.get("allow_pickle") == "True" or name in ("np.load", "numpy.load") and words.get("allow_pickle") != "False"
               or words.get("shell") == "True" or name == "YAML" and words.get("typ") not in (None, "'safe'"))
        if bad:
            found.append(ast.unparse(node))
    return found


def test_no_code_of_the_project_loads_what_could_run():
    assert {path.name: unsafe(path.read_text(encoding="utf-8")) for path in CODE if unsafe(path.read_text(encoding="utf-8"))} == {}


@pytest.mark.parametrize("line", ["pickle.load(f)", "torch.load(p)", "torch.load(p, weights_only=False)", "np.load(p)", "np.load(p, allow_pickle=True)",
                                  "yaml.load(t)",
                                  "YAML(typ='unsafe')", "eval(x)", "subprocess.run(c, shell=True)", "os.system(c)", "zipfile.ZipFile(p).extractall()"])
def test_the_search_finds(line):
    assert unsafe(line) == [line]


class Runs:
    def __reduce__(self):
        return (open, ("ran", "w"))


def header_only(header):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


SAFETENSORS = {
    "a pickle": pickle.dumps(Runs()),
    "a header longer than the file": struct.pack("<Q", 2**62) + b"{}",
    "offsets beyond the end": header_only({"encoder.0.weight": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}),
    "a name that is a path": header_only({"../../ran": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "__metadata__": {"recipe": "{}"}}),
    "a recipe that is code": header_only({"__metadata__": {"recipe": "__import__('os').system('touch ran')"}}),
    "a recipe of another kind": header_only({"__metadata__": {"recipe": '{"of": ["simclr", "1"], "encoder": "x", "side": {}}'}}),
}
NUMPY = b"\x93NUMPY\x01\x00\x76\x00"  # version 1.0, a header of 118 bytes
NPY = {"a pickle": pickle.dumps(Runs()),
       "code for a shape": NUMPY + b"{'descr': '|u1', 'fortran_order': False, 'shape': __import__('os').mkdir('ran')}".ljust(117) + b"\n",
       "nested without end": NUMPY + b"(" * 117 + b"\n"}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_malicious_weights_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "simclr/1.safetensors"
    path.parent.mkdir()
    path.write_bytes(SAFETENSORS[name])
    with pytest.raises(Refused, match="1.safetensors"):
        load_network(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["simclr", "1.safetensors"] and not (tmp_path.parent / "ran").exists()


@pytest.mark.parametrize("name", NPY)
@pytest.mark.parametrize("load", [load_images, load_archive])
def test_malicious_arrays_are_refused_by_name(name, load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(NPY[name])
    with pytest.raises(Refused, match="x.npy"):
        load(tmp_path / "x.npy")
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


def test_an_object_array_in_an_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "x.npz", allow_pickle=True, a=np.array([Runs()]))
    with pytest.raises(Refused, match="x.npz"):
        load_archive(tmp_path / "x.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["id,shape\n0,=cmd|' /C touch ran'!A0\n", "id,shape\n0,../../../etc/passwd\n", "id,shape\n0,<script>alert(1)</script>\n",
                                  'id,shape\n0,"$(touch ran)"\n'])
def test_a_cell_of_a_table_is_text_and_nothing_else(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(text)
    assert read_table(tmp_path / "x.csv", ["id"])[0]["shape"] in text and [file.name for file in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system ['touch ran']\n", "a: !!python/name:os.system\n", "a: !!python/module:os\n",
                                  "!!python/object/new:os.system ['touch ran']\n"])
def test_yaml_makes_no_object(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(Refused, match="params.yaml"):
        read_params(tmp_path / "params.yaml")
    assert not (tmp_path / "ran").exists()


def test_json_nested_without_end_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100000)
    with pytest.raises(Refused, match="x.json"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["../ran", "/etc/ran", "a/../../ran", "ran\n", "a;touch ran", "$(touch ran)", "`touch ran`",
                                  "<img src=x onerror=alert(1)>", "ran'", "..", ""])
@pytest.mark.parametrize("block", ["runs", "datasets", "relations", "views", "mined"])
def test_a_name_that_would_become_a_path_or_a_command_is_refused(block, name, tmp_path):
    """Names of entries stand in the commands and paths of dvc.yaml."""
    from ruamel.yaml import YAML
    params = read_params(ROOT / "params.yaml")
    params[block][name] = next(iter(params[block].values()))
    with open(tmp_path / "params.yaml", "w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(params, file)
    said = told(plan, {"params": str(tmp_path / "params.yaml"), "plans": str(tmp_path / "plans")})
    assert said and "a name of letters" in said and not (tmp_path / "plans").exists()
