"""Mutation check, run on demand: break each objective on purpose in a copy of the project and see a test fail for each.

Not collected by pytest (its name does not begin with test_). Exit code 1 if a mutant survives or a line to break is gone.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOSSES, RING, MOCO, VICREG = "stages/lib/infonce.py", "stages/lib/ring.py", "stages/pretrain/moco.py", "stages/pretrain/vicreg.py"
ABOUT = {LOSSES: ["tests/lib/test_infonce.py"], RING: ["tests/lib/test_ring.py"], MOCO: ["tests/pretrain/test_moco.py"],
         VICREG: ["tests/pretrain/test_vicreg.py"], "stages/pretrain/simclr.py": ["tests/pretrain/test_simclr.py"]}
# what is broken: file, the right code, the wrong code
MUTANTS = {
    "the self-pair stays among the candidates": (LOSSES, "~same.repeat(2, 2), temperature", "~(same & False).repeat(2, 2), temperature"),
    "the wrong row is the positive": (LOSSES, ".roll(count // 2)", ".roll(1)"),
    "log of the mean over positives": (LOSSES, "rows = -torch.where(positive, log_p, torch.zeros_like(log_p)).sum(dim=1) / positives.clamp(min=1)",
                                       "rows = -log_p.masked_fill(~positive, -torch.inf).logsumexp(dim=1) + positives.clamp(min=1).log()"),
    "positives among the negatives of their group": (LOSSES, "partner(len(z), z.device), ~same.repeat(2, 2)",
                                                     "partner(len(z), z.device), ~torch.eye(len(z), dtype=torch.bool)"),
    "similarities multiplied by the temperature": (LOSSES, "logits = similarity / temperature", "logits = similarity * temperature"),
    "a hidden base temperature": (LOSSES, "return rows.sum() / kept.sum().clamp(min=1)", "return (temperature / 0.07) * rows.sum() / kept.sum().clamp(min=1)"),
    "anchors without a positive counted in the mean": (LOSSES, "kept.sum().clamp(min=1)", "len(kept)"),
    "debias without the rescaling": (LOSSES, " - math.log1p(-debias)", ""),
    "debias without its floor": (LOSSES, "torch.maximum(rest, least)", "rest"),
    "hardness without the mean weight": (LOSSES, " - log_sum(hardness) + log_count", ""),
    "the filter drops the easy negatives": (LOSSES, "similarity <= filter_above", "similarity >= filter_above"),
    "candidates counted without the positive": (LOSSES, "candidates = 1 + negative", "candidates = negative"),
    "unit rows with the eps of F.normalize": (LOSSES, "    return z / norm\n", "    return F.normalize(wide(z), dim=1)\n"),
    "a temperature that leaves its bounds": (LOSSES, "self.log.clamp_(*self.bounds)", "pass"),
    "one view detached": ("stages/pretrain/simclr.py", "        z = gathered(self.network(views)[1], len(ids))\n",
                          "        import torch\n        z = self.network(views)[1]\n        z = torch.cat([z.chunk(2)[0], z.chunk(2)[1].detach()])\n"),
    "EMA swapped": (RING, "slow.mul_(momentum).add_(fast, alpha=1 - momentum)", "slow.mul_(1 - momentum).add_(fast, alpha=momentum)"),
    "buffers left out of the EMA": (RING, "zip(chain(key.parameters(), key.buffers()), chain(query.parameters(), query.buffers()), strict=True)",
                                    "zip(key.parameters(), query.parameters(), strict=True)"),
    "the newest key overwritten": (RING, "places = (self.pointer + ", "places = (self.pointer - count + "),
    "a pointer that does not move": (RING, "self.pointer.copy_((self.pointer + count) % size)", "pass"),
    "a gradient through the keys": (MOCO,
                                    "        with torch.no_grad():\n            z_key = gathered(self.key_network(second)[1], len(ids))",
                                    "        z_key = self.network(second)[1]"),
    "enqueue before the contrast": (MOCO, "        positive = torch.zeros_like(ids)\n",
                                    "        positive = torch.zeros_like(ids)\n        self.ring.enqueue(self.keys.detach(), ids, 1, 0)\n"),
    "keys of the own image among the negatives": (MOCO, "~self.source.same(ids, self.ring.ids)]", "~self.source.same(ids, self.ring.ids) | True]"),
    "a ring of random vectors": (MOCO, "self.ring.enqueue(self.encode(ids, epoch), ids, epoch, self.steps)",
                                 "self.ring.enqueue(torch.randn(len(ids), self.ring.keys.shape[1]), ids, epoch, self.steps)"),
    "staleness by another view": (MOCO, "self.source.view(part, epoch, 1)", "self.source.view(part, epoch, 0)"),
    "VICReg's variance without / 2": (VICREG, "(spread_missing(first) + spread_missing(second)) / 2", "spread_missing(first) + spread_missing(second)"),
    "VICReg's covariance averaged": (VICREG, "correlated(first) + correlated(second)}", "(correlated(first) + correlated(second)) / 2}"),
    "eps outside the root": (VICREG, "(z.var(dim=0) + EPS).sqrt()", "(z.var(dim=0).sqrt() + EPS)"),
    "biased variance": (VICREG, "z.var(dim=0)", "z.var(dim=0, correction=0)"),
    "covariance with its diagonal": (VICREG, "covariance.square().sum() - covariance.diagonal().square().sum()", "covariance.square().sum()"),
}


def survives(copy, file, right, wrong):
    """True if every test about `file` still passes with `wrong` in place of `right`."""
    path = copy / file
    code = path.read_text(encoding="utf-8")
    if code.count(right) < 1:
        raise SystemExit(f"{file} no longer holds `{right}`: bring tests/mutants.py up to date")
    path.write_text(code.replace(right, wrong), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *ABOUT[file]], cwd=copy, capture_output=True, text=True)
    path.write_text(code, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run on this mutant:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def main():
    chosen = {name: mutant for name, mutant in MUTANTS.items() if not sys.argv[1:] or any(word in name for word in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("stages", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "params.yaml"):
            shutil.copy2(ROOT / name, copy / name)
        alive = []
        for name, mutant in chosen.items():
            if survives(copy, *mutant):
                alive.append(name)
            print(f"{'SURVIVES' if name in alive else 'caught  '}  {name}", flush=True)
    sys.exit(f"{len(alive)} of {len(chosen)} mutants survive: {', '.join(alive)}" if alive else 0)


if __name__ == "__main__":
    main()
