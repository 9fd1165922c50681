"""Tables for people: `show` prints the ledger in use; `write` runs the experiments below and writes docs/tables.md and the README's tables."""
import csv
import io
import json
import re
import subprocess
import sys

from docs.clone import ROOT, clone

# name: (title, settings of `dvc exp run`)
EXPERIMENTS = {
    "lab06": ("Colored shapes (LAB 06), ten seeds", ["replicates=10"]),
    "digits": ("Real handwritten digits, painted", ["dataset=digits"]),
}
# accuracy that LAB 06 reports for its one seed: (run, space, factor, probe)
LAB06 = {
    ("untrained", "h", "shape", "knn"): 0.7250, ("untrained", "h", "color", "knn"): 1.0,
    ("simclr_keep", "h", "shape", "knn"): 0.4750, ("simclr_keep", "h", "color", "knn"): 1.0,
    ("simclr_swap", "h", "shape", "knn"): 0.8583, ("simclr_swap", "h", "color", "knn"): 0.4917,
    ("simclr_swap", "z", "shape", "knn"): 0.9542, ("simclr_swap", "z", "color", "knn"): 0.5292,
    ("simclr_swap", "h", "shape", "linear"): 0.9875,
}
PROBES = {"knn": "5-NN", "linear": "linear"}


def ledger(text):
    return {(row["run"], row["space"], row["factor"], row["probe"]): row for row in csv.DictReader(io.StringIO(text))}


def interval(row):
    mean, low, high = (f"{float(row[name]):.3f}" if row[name] else "" for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]" if low else mean


def table(cells):
    """Rows: run and space; columns: factor and probe; accuracy on test with its interval. As lists of strings, header first."""
    columns = list(dict.fromkeys((factor, probe) for _, _, factor, probe in cells if probe in PROBES))
    rows = [["run", "space", *(f"{factor}, {PROBES[probe]}" for factor, probe in columns)]]
    for run, space in dict.fromkeys((run, space) for run, space, _, _ in cells):
        found = [cells.get((run, space, *column)) for column in columns]
        rows.append([run, space, *(interval(row) if row else "" for row in found)])
    return rows


def beside_the_lab(cells):
    rows = [["run", "space", "readout", "LAB 06 (one seed)", "here", "difference"]]
    for key, lab in LAB06.items():
        row = cells[key]
        rows.append([key[0], key[1], f"{key[2]}, {PROBES[key[3]]}", f"{lab:.3f}", interval(row), f"{float(row['mean']) - lab:+.3f}"])
    return rows


def claims(text):
    rows = [["claim", "verdict", "left - right"]]
    for claim in json.loads(text).values():
        effect = "" if claim["low"] is None else f"{claim['effect']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}]"
        mark = ", confounded: " + claim["differs"] if claim["confounded"] else ""
        rows.append([claim["text"], claim["verdict"] + mark + (f" ({claim['reason']})" if claim["reason"] else ""), effect])
    return rows


def markdown(rows):
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def plain(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def show():
    cells = ledger((ROOT / "metrics/ledger.csv").read_text(encoding="utf-8"))
    seeds = max(int(row["seeds"]) for row in cells.values())
    print(f"\nAccuracy on test with intervals over {seeds} seeds and the test images\n")
    print(plain(table(cells)))
    print("\n" + plain(claims((ROOT / "metrics/claims.json").read_text(encoding="utf-8"))))
    print("\nThe page: metrics/report.html\nFigures: " + ", ".join(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "metrics").glob("*/*.png"))))


def run_experiments():
    """{name: {path: text of a metric}} of each experiment."""
    found = {}
    with clone() as folder:
        for name, (_, settings) in EXPERIMENTS.items():
            subprocess.run(["dvc", "exp", "run", *(word for setting in settings for word in ("-S", setting))], cwd=folder, check=True)
            found[name] = {path: (folder / path).read_text(encoding="utf-8") for path in ("metrics/ledger.csv", "metrics/claims.json")}
            subprocess.run(["git", "checkout", "-q", "."], cwd=folder, check=True)
    return found


def write():
    parts = ["# Tables\n\nMade by `make tables`: each is one `dvc exp run`. Accuracy on test, intervals of 95 % over seeds and test images.\n"]
    found = run_experiments()
    for name, (title, settings) in EXPERIMENTS.items():
        shown = " ".join(["dvc exp run", *(f"-S {setting}" for setting in settings)])
        cells = ledger(found[name]["metrics/ledger.csv"])
        parts.append(f"## {title}\n\n`{shown}`\n\n{markdown(table(cells))}\n\n{markdown(claims(found[name]['metrics/claims.json']))}\n")
    lab = markdown(beside_the_lab(ledger(found["lab06"]["metrics/ledger.csv"])))
    parts.append(f"## LAB 06 beside ours, ten seeds\n\n{lab}\n")
    (ROOT / "docs/tables.md").write_text("\n".join(parts), encoding="utf-8")
    readme = ROOT / "README.md"
    filled = re.sub(r"(<!-- lab06 -->\n).*?(<!-- end -->)", lambda match: f"{match[1]}{lab}\n{match[2]}", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
    readme.write_text(filled, encoding="utf-8")
    print("docs/tables.md, README.md")


if __name__ == "__main__":
    {"show": show, "write": write}[sys.argv[1]]()
