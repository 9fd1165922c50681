"""Plan: params.yaml -> one resolved, checked recipe per run (<plans>/<run>.json), holding just what that run reads.

Every value of params.yaml is checked here, before anything runs; all faults are told at once, and none of them costs an
earlier result.
"""
import difflib
import json
from pathlib import Path

from pydantic import ValidationError

from stages.lib.schema import KEYS, RECIPES, SOURCES, Params
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, write_json

ALLOWED = {"model_type": "a mapping of keys to values", "dict_type": "a mapping of names to entries", "list_type": "a list",
           "too_short": "at least one entry", "union_tag_invalid": f"one of {', '.join(SOURCES)}", "union_tag_not_found": f"one of {', '.join(SOURCES)}"}


def faults_of(model, tree, prefix=()):
    """Lines telling each fault of `tree` against a model of the schema: key, value, what is allowed."""
    try:
        model.model_validate(tree)
        return []
    except ValidationError as errors:
        return [describe(error, tree, prefix) for error in errors.errors()]


def describe(error, tree, prefix):
    path, node = list(prefix), tree
    for part in error["loc"]:  # pydantic's location also holds names of types; the tree holds only keys
        if isinstance(node, dict) and part in node or isinstance(node, list) and isinstance(part, int):
            node = node[part]
            path.append(part)
    if error["type"] == "missing":
        return f"{'.'.join(map(str, [*path, error['loc'][-1]]))}: missing"
    key = ".".join(map(str, path))
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key" + nearest(path[-1], KEYS)
    if error["type"].startswith("union_tag"):
        key, node = f"{key}.source", node.get("source") if isinstance(node, dict) else node
    allowed = error["ctx"]["allowed"] if error["type"] == "refused" else ALLOWED.get(error["type"], error["msg"])
    return f"{key}: {shown(path[-1] if error['loc'][-1] == '[key]' else node)} is not allowed; allowed: {allowed}"


def shown(value):
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name, names):
    close = difflib.get_close_matches(str(name), sorted({str(other) for other in names} - {str(name)}), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def merge(shared, own):
    """`own` over `shared`; mappings are merged key by key."""
    if isinstance(shared, dict) and isinstance(own, dict):
        return {**shared, **{key: merge(shared[key], value) if key in shared else value for key, value in own.items()}}
    return own


def resolve(name, params):
    """(recipe, faults) of a run: what its objective reads, the run's own values over the shared ones."""
    entry, at = params["runs"][name], f"runs.{name}"
    objective = entry.get("objective") if isinstance(entry, dict) else entry
    if not isinstance(objective, str) or objective not in RECIPES:
        return None, [f"{at}.objective: {shown(objective)} is not allowed; allowed: one of {', '.join(RECIPES)}" + nearest(objective, RECIPES)]
    fields = list(RECIPES[objective].model_fields)
    faults = [f"{at}.{key}: not read by {objective}; allowed: {', '.join(fields)}" + nearest(key, fields) for key in entry if key not in fields]
    recipe = {"objective": objective}
    for key in fields[1:]:
        if key in ("views", "relation"):
            names = params["views" if key == "views" else "relations"]
            if not isinstance(entry.get(key), str) or entry[key] not in names:
                faults.append(f"{at}.{key}: {shown(entry[key]) + ' is not allowed' if key in entry else 'missing'}; "
                              f"allowed: one of {', '.join(names)}" + nearest(entry.get(key), names))
            else:
                recipe[key] = names[entry[key]] if key == "views" else entry[key]
        else:
            recipe[key] = merge(params.get(key), entry[key]) if key in entry else params.get(key)
    encoder = recipe["encoder"]
    if isinstance(encoder, dict) and encoder.get("name") in ("resnet18", "resnet50"):  # their width is their own
        own = entry["encoder"] if isinstance(entry.get("encoder"), dict) else {}
        faults += [f"{at}.encoder.{key}: not read by {encoder['name']}" for key in own if key in ("channels", "h")]
        if encoder.get("norm") == "none":
            faults.append(f"{at}.encoder.norm: none is not allowed for {encoder['name']}; allowed: group, batch")
        recipe["encoder"] = {key: value for key, value in encoder.items() if key not in ("channels", "h")}
    return recipe, faults


def check_across(params):
    """Faults that need two values to be seen."""
    faults = []
    if params["dataset"] not in params["datasets"]:
        faults.append(f"dataset: {shown(params['dataset'])} is not allowed; allowed: one of {', '.join(params['datasets'])}"
                      + nearest(params["dataset"], params["datasets"]))
    for name in ("channels", "h"):
        if name not in params["encoder"]:
            faults.append(f"encoder.{name}: missing")
    for name, entry in params["datasets"].items():
        if "column" in entry["split"]:
            continue
        shares = [entry["split"][part] for part in ("train", "val", "test")]
        total = SOURCES[entry["source"]].total(entry["images"])
        if all(isinstance(share, int) for share in shares):
            if total is not None and sum(shares) != total:
                faults.append(f"datasets.{name}.split: {' + '.join(map(str, shares))} = {sum(shares)} images; allowed: counts that sum to the {total} there are")
        elif any(isinstance(share, int) for share in shares) or abs(sum(shares) - 1) > 1e-9:
            faults.append(f"datasets.{name}.split: {shares} is not allowed; allowed: three counts, or three fractions that sum to 1")
    for name, relation in params["relations"].items():
        if (relation["kind"] == "factor") != ("factor" in relation):
            faults.append(f"relations.{name}.factor: {'missing' if relation['kind'] == 'factor' else 'not read by kind ' + relation['kind']}")
    for name, entry in params["datasets"].items():
        settings = entry["images"]
        if ("watermark_correlation" in settings) != ("watermark_free" in settings):
            faults.append(f"datasets.{name}.images: watermark_correlation and watermark_free go together; one is missing")
    for name, entry in params["interventions"].items():
        if entry.keys() not in ({"factor", "to"}, {"pixels"}):
            faults.append(f"interventions.{name}: {', '.join(entry) or 'nothing'} is not allowed; allowed: factor and to, or pixels")
    for name, entry in params["transfers"].items():
        for key, names in (("run", params["runs"]), ("beside", params["runs"]), ("to", params["datasets"])):
            if entry[key] not in names:
                faults.append(f"transfers.{name}.{key}: {shown(entry[key])} is not allowed; allowed: one of {', '.join(names)}" + nearest(entry[key], names))
    if params["seed"] + params["replicates"] - 1 > 2**32 - 1:
        faults.append(f"seed: {params['seed']} with {params['replicates']} replicates is not allowed; allowed: seeds up to {2**32 - 1}")
    return faults


def check_batches(recipes, params):
    """Faults of batch sizes, where the number of train images is known before the data are made."""
    entry = params["datasets"].get(params["dataset"])
    train = entry["split"].get("train") if entry else None
    return [f"{'runs.' + name + '.' if 'batch_size' in params['runs'][name].get('pretrain', {}) else ''}pretrain.batch_size: "
            f"{recipe['pretrain']['batch_size']} is larger than the {train} train images of {params['dataset']} (run {name}); allowed: 2 to {train}"
            for name, recipe in recipes.items()
            if isinstance(train, int) and "pretrain" in recipe and recipe["pretrain"]["batch_size"] > train]


def plan_all(params):
    """{run: recipe}; refused with every fault of `params` at once."""
    faults, recipes = faults_of(Params, params), {}
    sound = not faults  # else values cannot be compared, but names still can
    if all(isinstance(params.get(block), dict) for block in ("runs", "views", "relations")):
        resolved = {name: resolve(name, params) for name in params["runs"]}
        faults += [fault for _, own in resolved.values() for fault in own]
        recipes = {name: recipe for name, (recipe, own) in resolved.items() if not own}
    if sound:
        faults += check_across(params) + [fault for name, recipe in recipes.items() for fault in faults_of(RECIPES[recipe["objective"]], recipe, ("runs", name))]
    if not faults:
        faults = check_batches(recipes, params)
    if faults:
        raise Refused(f"params.yaml has {len(faults)} fault{'s' * (len(faults) > 1)}; nothing was run, earlier results are untouched"
                      + "".join(f"\n  {fault}" for fault in dict.fromkeys(faults)))
    return {name: RECIPES[recipe["objective"]].model_validate(recipe).model_dump(exclude_unset=True, by_alias=True) for name, recipe in recipes.items()}


def main(params, plans):
    recipes = plan_all(read_params(params))
    for name, recipe in recipes.items():
        write_json(f"{plans}/{name}.json", recipe)
    for path in sorted(Path(plans).glob("*.json")):
        if path.stem not in recipes:
            path.unlink()
    print(f"{plans}: {len(recipes)} runs planned, {', '.join(recipes)}")


if __name__ == "__main__":
    run(main)
