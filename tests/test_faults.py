"""Three hundred faults of params.yaml: each is refused with its key and without a traceback, or provably harmless."""
import copy
import random
from io import StringIO

import pytest
from conftest import ROOT, call
from ruamel.yaml import YAML
from test_dvc import files

from stages.lib.leaves import is_number
from stages.lib.stage import told
from stages.lib.tables import read_params
from stages.plan import main as plan
from stages.plan import plan_all

DEFAULTS = read_params(ROOT / "params.yaml")
NONSENSE = [None, True, "", "abc", "\u4e24\u89c6\u56fe \U0001f600 \u202e", -1, -0.5, 0.5, 10**30, -(10**30), 1e308, float("nan"), float("inf"),
            [], [1, 2, 3], [[]], {}, {"a": 1}, "1e-5", "../../etc/passwd", "a\nb", "x" * 10000, "<script>alert(1)</script>", "${seed}", "$(touch ran)", [None],
            "null", "2020-01-01"]


def paths(tree, at=()):
    """The path of every mapping entry, inner ones included."""
    for key, value in tree.items():
        yield (*at, key)
        if isinstance(value, dict):
            yield from paths(value, (*at, key))


def node_at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def faults(count):
    """(what was done, its key, the parameters, a function that gives the text of params.yaml), `count` of each of the kinds by turns, the same every time."""
    choose, everywhere = random.Random(1), list(paths(DEFAULTS))
    for number in range(count):
        path = choose.choice(everywhere)
        params = copy.deepcopy(DEFAULTS)
        parent, key = node_at(params, path[:-1]), path[-1]
        kind = ("value", "value", "value", "missing", "extra", "name", "structure", "doubled")[number % 8]
        if kind == "value":
            parent[key] = choose.choice(NONSENSE)
        elif kind == "missing":
            del parent[key]
        elif kind == "extra":
            parent[choose.choice(["typo", "\u00fcber", "seeds", "__class__", "a b", "x" * 200])] = choose.choice(NONSENSE)
        elif kind == "name":
            parent[str(key)[:-1] + choose.choice(["", "X", "\u00e9", "/..", " "])] = parent.pop(key)
        elif kind == "structure":
            parent[key] = choose.choice([{"inner": parent[key]}, [parent[key]], str(parent[key])])
        more = f"\n{path[0]}: {choose.choice(['1', 'null', '{}'])}\n" if kind == "doubled" else ""
        yield kind, path, params, lambda params=params, more=more: dump(params) + more


def dump(params):
    stream, yaml = StringIO(), YAML(typ="safe", pure=True)
    yaml.allow_unicode = True
    yaml.dump(params, stream)
    return stream.getvalue()


def refusals(folder, text):
    """What `plan` says to this text of params.yaml, or None if it takes it."""
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    return told(plan, {"params": str(folder / "params.yaml"), "plans": str(folder / "plans")})


LOOKED_UP = ("to", "main_factor", "second_factor", "factor", "run", "text", "right")  # in the data, by a later stage, which refuses or calls it not applicable


NAMED_OPERATIONS = ("views", "runs", "interventions", "transformations", "extract")  # what is not named is not applied


def harmless(kind, path, params):
    """A change that params.yaml may have: none at all, other named entries, views or values of a run, a name to look up, or a sound value of the same kind."""
    if params == DEFAULTS or path[-1] in LOOKED_UP or kind in ("missing", "name") and (len(path) == 2 or path[0] in NAMED_OPERATIONS):
        return True
    new, old = node_at(params, path), node_at(DEFAULTS, path)
    return not isinstance(new, str) and (type(new) is type(old) or is_number(new) and is_number(old))


def test_of_300_faults_each_is_refused_with_its_key_or_gives_plans_of_sound_values(tmp_path):
    """All go through `plan_all`, and those that only a text can hold, and some more, through the file that it is read from."""
    assert told(plan, {"params": str(ROOT / "params.yaml"), "plans": str(tmp_path / "plans")}) is None
    sound = {path.name: path.read_bytes() for path in (tmp_path / "plans").iterdir()}
    taken = 0
    for number, (kind, path, params, text) in enumerate(faults(300)):
        said = refusals(tmp_path, text()) if kind == "doubled" or number % 10 == 0 else told(plan_all, {"params": params})
        if said is None:
            taken += 1
            assert kind not in ("extra", "doubled") and harmless(kind, path, params), (kind, path)
            assert told(plan, {"params": str(ROOT / "params.yaml"), "plans": str(tmp_path / "plans")}) is None
            continue
        assert said.startswith("error: ") and len(said.splitlines()) < 60
        assert any(str(part) in said for part in path) or kind == "extra", (kind, path, said)
        assert {file.name: file.read_bytes() for file in (tmp_path / "plans").iterdir()} == sound, (kind, path)
    assert taken < 60


@pytest.mark.parametrize("text, word", [
    ("temperature: 0.2\ntemperature: 0.3\n", "temperature"), ("runs: [unclosed\n", "line"), ("\x00", "params.yaml"), ("- a\n- b\n", "params.yaml"),
    ("", "params.yaml"),
    ("a: &a [*a]\n", "params.yaml"), ("a: !!python/object/apply:os.system ['touch ran']\n", "constructor"), ("? [a, b]\n: 1\n", "params.yaml"),
    ("a: &x [1,1,1,1,1,1,1,1,1]\n" + "".join(f"b{n}: &x{n} [{', '.join(['*x' + (str(n - 1) if n else '')] * 9)}]\n" for n in range(9)), "b0"),
    ("[" * 1000, "params.yaml"), ("temperature: &x [1,1,1]\nx: &y [*x,*x,*x]\n", "temperature"),
])
def test_yaml_that_is_no_mapping_of_parameters_is_refused(tmp_path, text, word):
    said = refusals(tmp_path, text)
    assert said.startswith("error: ") and word in said and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("change, word", [
    (lambda text: text.replace("temperature: 0.2", "temperature: .nan"), "temperature"),
    (lambda text: text.replace("replicates: ", "replicates: 1\nreplicates: "), "replicates"),
    (lambda text: text.replace("\nruns:\n", "\nrun:\n"), "runs"),
    (lambda text: text + "\nviews: {", "params.yaml"),
])
def test_dvc_repro_with_a_fault_ends_with_its_key_and_the_results_survive(clone, change, word):
    before = {name: code for name, code in files(clone).items() if name != "params.yaml"}
    path = clone / "params.yaml"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    done = call("dvc", "repro", cwd=clone, check=False)
    said = done.stdout + done.stderr
    assert done.returncode and word in said and "Traceback" not in said
    assert {name: code for name, code in files(clone).items() if name != "params.yaml"} == before
