"""Plan: params.yaml -> one resolved, checked recipe per run (<plans>/<run>.json), holding just what that run reads.

Every value of params.yaml is checked here, before anything runs; all faults are told at once, and none of them costs an
earlier result.
"""
import difflib
import json
import reprlib
from pathlib import Path

from pydantic import BaseModel, ValidationError

from stages.lib.schema import KEYS, MINED, RECIPES, SOURCES, Params
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
    text = reprlib.repr(value) if isinstance(value, (dict, list)) else json.dumps(value, ensure_ascii=False, default=str)  # aliases can nest without end
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name, names):
    close = difflib.get_close_matches(str(name), sorted({str(other) for other in names} - {str(name)}), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def merge(shared, own):
    """`own` over `shared`; mappings are merged key by key."""
    if isinstance(shared, dict) and isinstance(own, dict):
        return {**shared, **{key: merge(shared[key], value) if key in shared else value for key, value in own.items()}}
    return own


def read_by(model, block):
    """The part of a shared block that an objective reads: not each reads every key of `pretrain`."""
    if isinstance(model, type) and issubclass(model, BaseModel) and isinstance(block, dict):
        return {key: value for key, value in block.items() if key in model.model_fields}
    return block


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
            names = params["views"] if key == "views" else {**params["relations"], **params["mined"]}
            if not isinstance(entry.get(key), str) or entry[key] not in names:
                faults.append(f"{at}.{key}: {shown(entry[key]) + ' is not allowed' if key in entry else 'missing'}; "
                              f"allowed: one of {', '.join(names)}" + nearest(entry.get(key), names))
            else:
                recipe[key] = names[entry[key]] if key == "views" else entry[key]
        else:
            shared = read_by(RECIPES[objective].model_fields[key].annotation, params.get(key))
            recipe[key] = merge(shared, entry[key]) if key in entry else shared
    encoder = recipe.get("encoder")
    if isinstance(encoder, dict) and encoder.get("name") in ("resnet18", "resnet50"):  # their width is their own
        own = entry["encoder"] if isinstance(entry.get("encoder"), dict) else {}
        faults += [f"{at}.encoder.{key}: not read by {encoder['name']}" for key in own if key in ("layers", "h")]
        if encoder.get("norm") == "none":
            faults.append(f"{at}.encoder.norm: none is not allowed for {encoder['name']}; allowed: group, batch")
        recipe["encoder"] = {key: value for key, value in encoder.items() if key not in ("layers", "h")}
    return recipe, faults


def check_across(params):
    """Faults that need two values to be seen."""
    faults = []
    if params["dataset"] not in params["datasets"]:
        faults.append(f"dataset: {shown(params['dataset'])} is not allowed; allowed: one of {', '.join(params['datasets'])}"
                      + nearest(params["dataset"], params["datasets"]))
    for name in ("layers", "h"):
        if name not in params["encoder"]:
            faults.append(f"encoder.{name}: missing")
    for name, entry in params["datasets"].items():
        if "column" in entry["split"]:
            continue
        shares = [entry["split"][part] for part in ("train", "val", "test")]
        total = SOURCES[entry["source"]].total(entry["images"])
        if all(isinstance(share, int) for share in shares):
            if total is not None and sum(shares) != total:
                faults.append(f"datasets.{name}.split: {' + '.join(map(str, shares))} = {sum(shares)} images; "
                              f"allowed: counts that sum to the {total} there are")
        elif any(isinstance(share, int) for share in shares) or abs(sum(shares) - 1) > 1e-9:
            faults.append(f"datasets.{name}.split: {shares} is not allowed; allowed: three counts, or three fractions that sum to 1")
    for name, relation in params["relations"].items():
        if (relation["kind"] == "factor") != ("factor" in relation):
            faults.append(f"relations.{name}.factor: {'missing' if relation['kind'] == 'factor' else 'not read by kind ' + relation['kind']}")
    for objective in ("simclr", "moco"):
        follows = [name for name, entry in params["runs"].items() if entry.get("objective") == objective]
        if params["explain"][objective] not in follows:
            faults.append(f"explain.{objective}: {shown(params['explain'][objective])} is not allowed; "
                          f"allowed: a run of objective {objective}: {', '.join(follows)}")
    for name, claim in params["claims"].items():
        for side in (part for part in ("left", "right") if isinstance(claim[part], dict)):
            spread = claim[side]["probe"] == "spread"
            if spread == ("factor" in claim[side]):
                faults.append(f"claims.{name}.{side}.factor: {'not read by probe spread' if spread else 'missing'}")
            if spread and (side == "right" or claim[side]["space"] != "z" or not isinstance(claim["right"], (int, float))):
                faults.append(f"claims.{name}.{side}.probe: spread is not allowed; allowed: spread of space z on the left of a number")
    for name, mined in params["mined"].items():
        read = MINED[mined["kind"]]
        faults += [f"mined.{name}.{key}: {'missing' if key in read else 'not read by kind ' + mined['kind']}"
                   for key in ("clusters", "restarts", "k") if (key in read) != (key in mined)]
        if name in params["relations"]:
            faults.append(f"mined.{name}: there is a relation of this name too; allowed: another name")
        if mined["run"] not in params["runs"]:
            faults.append(f"mined.{name}.run: {shown(mined['run'])} is not allowed; allowed: one of {', '.join(params['runs'])}"
                          + nearest(mined["run"], params["runs"]))
        elif name in (chain := ancestors(name, params)):
            faults.append(f"mined.{name}.run: {mined['run']} learns from {name} itself ({' from '.join([name, *chain])}); allowed: a run that does not")
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


def ancestors(name, params):
    """The runs and mined relations that a mined relation comes from, nearest first, until the first one that comes again."""
    found, key, seen = [], name, set()
    while isinstance(key, str) and key in params["mined"] and key not in seen:
        seen.add(key)
        run = params["mined"][key]["run"]
        key = params["runs"].get(run, {}).get("relation")
        found += [run, key]
    return [key for key in found if isinstance(key, str) and key in {**params["mined"], **params["runs"]}]


def check_similarities(recipes, params):
    """Faults of options that mean something for some similarities or temperatures only."""
    faults = []
    for name, recipe in recipes.items():
        options = recipe.get("negatives")
        if options is None:
            continue

        def at(key, name=name):
            return f"{'runs.' + name + '.' if key in params['runs'][name].get('negatives', {}) else ''}negatives.{key}"

        for key, off in (("debias", 0), ("filter_above", 1)):
            if options[key] != off and not recipe["pretrain"]["normalize"]:
                faults.append(f"{at(key)}: {options[key]} needs cosines, but pretrain.normalize is false (run {name}); allowed: {off}, or normalize true")
        learned = options["learn_temperature"]
        if learned and not learned[0] <= recipe["temperature"] <= learned[1]:
            faults.append(f"{at('learn_temperature')}: {learned} does not hold the temperature {recipe['temperature']} that run {name} starts at; "
                          "allowed: bounds on either side of it")
    return faults


def check_batches(recipes, params):
    """Faults of batch sizes, where the number of train images is known before the data are made."""
    entry = params["datasets"].get(params["dataset"])
    train = entry["split"].get("train") if entry else None
    return [f"{'runs.' + name + '.' if 'batch_size' in params['runs'][name].get('pretrain', {}) else ''}pretrain.batch_size: "
            f"{recipe['pretrain']['batch_size']} is larger than the {train} train images of {params['dataset']} (run {name}); allowed: 2 to {train}"
            for name, recipe in recipes.items()
            if isinstance(train, int) and "pretrain" in recipe and recipe["pretrain"]["batch_size"] > train]


def check_processes(recipes, params):
    """Faults of several processes; where they come from is told as for the batch sizes."""
    faults = []
    for name, recipe in recipes.items():
        settings, own = recipe.get("pretrain", {"processes": 1}), params["runs"][name]
        at = f"{'runs.' + name + '.' if 'processes' in own.get('pretrain', {}) else ''}pretrain.processes: {settings['processes']}"
        if settings["processes"] > settings.get("batch_size", 1):
            faults.append(f"{at} cannot share a batch of {settings['batch_size']} images (run {name}); allowed: up to pretrain.batch_size")
        if settings["processes"] > 1 and recipe["encoder"]["norm"] == "batch" and recipe["device"] == "cpu":
            faults.append(f"{at} with encoder.norm batch on device cpu (run {name}): PyTorch synchronizes batch statistics on GPUs alone; "
                          "allowed: 1, or norm group or none, or device cuda")
    return faults


def plan_all(params):
    """{run: recipe}; refused with every fault of `params` at once."""
    faults, recipes = faults_of(Params, params), {}
    sound = not faults  # else values cannot be compared, but names still can
    if all(isinstance(params.get(block), dict) for block in ("runs", "views", "relations", "mined")):
        resolved = {name: resolve(name, params) for name in params["runs"]}
        faults += [fault for _, own in resolved.values() for fault in own]
        recipes = {name: recipe for name, (recipe, own) in resolved.items() if not own}
    if sound:
        faults += check_across(params)
        faults += [fault for name, recipe in recipes.items() for fault in faults_of(RECIPES[recipe["objective"]], recipe, ("runs", name))]
    if not faults:
        faults = check_batches(recipes, params) + check_similarities(recipes, params) + check_processes(recipes, params)
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
