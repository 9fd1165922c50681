"""Report: tables, maps and images -> one HTML page that opens offline, in English and Chinese.

Each panel is a function of stages/lib/panels and a template of the same name in <page>/panels; it appears where all its inputs are given.
"""
import itertools
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stages.lib.checks import load_archive, load_images
from stages.lib.panels import answer, looks, readouts, training
from stages.lib.pictures import COLUMNS, Sheet
from stages.lib.stage import run
from stages.lib.tables import read_json, read_params, read_table, replacing

# name: (its group in the contents, function, the inputs that it needs), in the order of the page
PANELS = {
    "answer": ("results", answer.answer, ["ledger", "preview", "collapse"]), "ledger": ("results", answer.ledger, ["ledger", "collapse"]),
    "claims": ("results", answer.claims, ["claims"]),
    "views": ("looks", answer.views, ["preview"]), "neighbors": ("looks", looks.neighbors, ["maps", "images", "factor_rows"]),
    "map": ("looks", looks.space_map, ["maps", "images", "factor_rows"]),
    "transformations": ("tests", readouts.transformations, ["ledger"]), "interventions": ("tests", readouts.interventions, ["probe", "geometry"]),
    "slices": ("tests", readouts.slices, ["probe", "ledger"]), "budgets": ("tests", readouts.budgets, ["probe", "finetune", "ledger"]),
    "transfers": ("tests", readouts.transfers, ["transfers"]),
    "curves": ("training", training.curves, ["curves"]), "ranks": ("training", training.ranks, ["curves", "collapse"]),
    "collapse": ("training", readouts.collapse, ["geometry", "collapse"]), "pushes": ("training", readouts.pushes, ["geometry"]),
    "staleness": ("training", training.staleness, ["staleness"]),
    "relations": ("recipes", training.relations, ["relations"]), "recipes": ("recipes", answer.recipes, ["plans"]),
    "explain": ("recipes", training.explain, ["explain"])}


def per_run(suffix, read=read_table):
    """A reader of one file for each name."""
    return lambda path, names: {name: read(f"{path}/{name}{suffix}") for name in names}


# how each input is read, from its path and the names of the runs
READERS = {"ledger": lambda path, names: read_table(path), "claims": lambda path, names: read_json(path),
           "explain": lambda path, names: read_json(path),
           "plans": per_run(".json", read_json), "relations": per_run(".json", read_json), "transfers": per_run(".csv"),
           "curves": per_run(".csv"), "staleness": per_run("_staleness.csv"), "probe": per_run(".csv"), "geometry": per_run(".csv"),
           "collapse": lambda path, names: read_table(path), "finetune": per_run(".csv"), "preview": lambda path, names: load_archive(path),
           "maps": per_run(".npz", load_archive),
           "images": lambda path, names: load_images(path), "factor_rows": lambda path, names: read_table(path, ["id"])}

BDI = Markup("<bdi>{}</bdi>")


class Words:
    """The page's own words in both languages; what a person named is put in as text, whatever it holds."""

    def __init__(self, path):
        self.pairs = read_json(path)

    def pair(self, key, **values):
        """(English, Chinese) as markup, values escaped."""
        return tuple(Markup(text.replace(" %", "\u00a0%")).format(**values) for text in self.pairs[key])

    def say(self, key, **values):
        """Both languages side by side; the style sheet shows one. Texts put in keep their own direction of writing."""
        english, chinese = self.pair(key, **{name: BDI.format(value) if isinstance(value, str) else value for name, value in values.items()})
        if english == chinese:
            return english
        return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-Hans">{}</span>').format(english, chinese)

    def has(self, key):
        return key in self.pairs

    def find(self, prefix, text):
        """What a stage said (`text`) in both languages, if a key `prefix` + text knows it, {names} in the key standing for anything; else the text."""
        for key in self.pairs:
            if key.startswith(prefix):
                found = re.fullmatch(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(key.removeprefix(prefix))), text)
                if found:
                    return self.say(key, **found.groupdict())
        return f"{text[:1].upper()}{text[1:]}."


def show_panels(given, paths):
    """[{id, group, files, data}] of the panels that have something to show."""
    panels = []
    for name, (group, build, needs) in PANELS.items():
        if all(need in given for need in needs):
            data = build(given)
            if data:
                files = [paths[need] + ("" if Path(paths[need]).suffix else "/") for need in needs if need in paths]
                panels.append({"id": name, "group": group, "files": list(dict.fromkeys(files)), "data": data})
    return panels


def render(page, given, panels):
    """The page as text."""
    words = Words(f"{page}/words.json")
    environment = Environment(loader=FileSystemLoader(page), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda value: "–" if value is None else f"{round(100 * value)}".replace("-", "−")
    environment.filters["tenths"] = lambda value: "–" if value is None else f"{100 * value:.1f}".replace("-", "−")
    environment.filters["signed"] = answer.signed
    environment.globals |= {"say": words.say, "pair": words.pair, "has_words": words.has, "find_words": words.find, "columns": COLUMNS,
                            "levels": levels(given["judge"])}
    style, script = (Markup(Path(page, name).read_text(encoding="utf-8")) for name in ("style.css", "script.js"))
    sheet = given["sheet"]
    groups = [(group, list(found)) for group, found in itertools.groupby(panels, key=lambda panel: panel["group"])]
    return environment.get_template("report.html.j2").render(panels=panels, groups=groups, dataset=given["dataset"], facts=given["facts"], sheet=sheet,
                                                             sheet_uri=Markup(sheet.uri()), style=style, script=script)


def levels(judge):
    """The judge's levels as text, those that are shares in percent."""
    shares = {name: f"{100 * judge[name]:g}" for name in ("confidence", "kept", "erased", "gained")}
    return {**shares, "share": f"{100 * judge['collapse_share']:g}", "rank": f"{judge['collapse_rank']:g}", "spread": f"{judge['collapse_spread']:g}"}


def read_given(params, paths):
    """All that panels read: parameters, and every input of `paths`."""
    runs, dataset = read_params(params, "runs"), read_params(params, "dataset")
    entry = read_params(params, "datasets", dataset)
    given = {"runs": runs, "policies": read_params(params, "views"), "dataset": dataset, "queries": read_params(params, "page", "queries"),
             "named_factors": list(dict.fromkeys([entry["main_factor"], entry["second_factor"]])),
             "judge": read_params(params, "judge"), "claimed": read_params(params, "claims"),
             "intervened": read_params(params, "interventions"),
             "relation_entries": {**read_params(params, "relations"), **read_params(params, "mined")}}
    named = {"relations": ["relations", "mined"], "transfers": ["transfers"]}  # the blocks of params.yaml whose names these inputs have
    for key, path in paths.items():
        given[key] = READERS[key](path, [name for block in named.get(key, ["runs"]) for name in read_params(params, block)])
    given["sheet"] = Sheet(given["images"].shape[-1])
    row = next((row for row in given["ledger"] if row["run"] in runs), None)
    given["facts"] = {"images": len(given["images"]), "test": row["n"] if row else "–", "seeds": row["seeds"] if row else "–", "runs": len(runs),
                      "confidence": f"{100 * given['judge']['confidence']:g}"}
    return given


def main(params, page, ledger, claims, collapse, explain, plans, curves, preview, maps, relations, probe, geometry, finetune, transfers, images, factors, html):
    paths = {"ledger": ledger, "claims": claims, "collapse": collapse, "explain": explain, "plans": plans, "curves": curves, "staleness": curves,
             "preview": preview, "maps": maps, "relations": relations, "probe": probe, "geometry": geometry, "finetune": finetune, "transfers": transfers,
             "images": images, "factor_rows": factors}
    given = read_given(params, paths)
    panels = show_panels(given, paths)
    text = render(page, given, panels)
    with replacing(html) as file:
        file.write(text)
    print(f"{html}: {len(panels)} panels, {len(text.encode()) / 1e6:.2f} MB; open it in a browser, no network needed")


if __name__ == "__main__":
    run(main)
