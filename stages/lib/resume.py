"""Saved states of unfinished and finished trainings: a cache, which may be deleted at any time and changes no byte of a result.

A file belongs to one training by its key, a hash of all that the training reads: recipe, seed, images, relation, code,
libraries and kind of processor. So another parameter, image or line of code never meets old weights. Draws and orders depend on
(seed, epoch, image, view) alone, so there is no generator whose state would have to be saved.
"""
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save

from stages.lib.tables import replacing
from stages.lib.together import from_first

KEPT = 2  # states of one training: the newest, and the one before it should the newest be damaged


def sha256(path):
    """The hash of a file's content, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def setting(recipe, images):
    """All that the trainings of one stage have in common and that could change a byte of a result; images: path."""
    root = Path(__file__).parents[1]
    files = sorted({Path(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)})
    return {"recipe": {name: value for name, value in recipe.items() if name not in ("seed", "replicates", "resume")}, "images": sha256(images),
            "code": {file.relative_to(root).as_posix(): sha256(file) for file in files if file.is_relative_to(root)},
            "libraries": [torch.__version__, np.__version__]}


def laid_out_as(parameter, moment):
    """A moment in the memory layout of its parameter, as the optimizer makes it: a fused step reads both in the order of memory."""
    return torch.empty_like(parameter).copy_(moment) if moment.shape == parameter.shape else moment


class Saved:
    """The states of the training of one seed in a folder, <key>-<epoch>-<hash of the file>.safetensors.

    ids: int64, its train images; relation: array, who counts as the same; limit: megabytes that the files of all trainings may take.
    """

    def __init__(self, folder, setting, seed, ids, relation, limit):
        # asked here, in a worker: a process that has touched CUDA cannot be forked
        processor = torch.cuda.get_device_name() if setting["recipe"]["device"] == "cuda" else torch.backends.cpu.get_cpu_capability()
        digest = hashlib.sha256(json.dumps([setting, processor, seed, ids.shape, relation.shape], sort_keys=True).encode())
        digest.update(ids.tobytes() + relation.tobytes())
        self.folder, self.key, self.limit = Path(folder), digest.hexdigest()[:40], limit * 10**6

    def files(self):
        """The files of this training, the newest epoch first."""
        return sorted(self.folder.glob(f"{self.key}-*.safetensors"), reverse=True)

    def newest(self):
        """The content of the newest sound file of this training, or None."""
        for path in self.files():
            with contextlib.suppress(FileNotFoundError):  # another process made room
                content = path.read_bytes()
                if hashlib.sha256(content).hexdigest()[:40] == path.stem.split("-")[2]:  # else cut short or damaged
                    os.utime(path)  # the oldest are removed first
                    return content
        return None

    def load(self, learner, optimizer):
        """Bring both to the newest sound state and return what `save` was told of it, or None if there is no state.

        Of several processes the first one reads for all, so that none goes on from another epoch.
        """
        content = from_first(self.newest)
        if content is None:
            return None
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        tensors = load(content)
        learner.load_state_dict({name[2:]: tensor for name, tensor in tensors.items() if name.startswith("l.")})
        parameters, state = [parameter for group in optimizer.param_groups for parameter in group["params"]], {}
        for name in tensors:
            if name.startswith("o."):
                _, row, moment = name.split(".")
                state.setdefault(int(row), {})[moment] = laid_out_as(parameters[int(row)], tensors[name])
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return json.loads(header["__metadata__"]["told"])

    def save(self, learner, optimizer, epoch, **told):
        """Write parameters, buffers and moments, and `told` (what JSON can hold), of the end of an epoch; then remove what is too old or too much."""
        tensors = {f"l.{name}": tensor for name, tensor in learner.state_dict().items()}
        tensors |= {f"o.{row}.{moment}": tensor for row, moments in optimizer.state_dict()["state"].items() for moment, tensor in moments.items()}
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}  # cloned: two may share memory
        content = save(tensors, {"told": json.dumps({"epoch": epoch, **told})})
        if len(content) > self.limit:
            return
        code = hashlib.sha256(content).hexdigest()[:40]
        with contextlib.suppress(FileNotFoundError):  # someone emptied the folder meanwhile
            with replacing(self.folder / f"{self.key}-{epoch:07d}-{code}.safetensors", "wb") as file:
                file.write(content)
            for path in self.files()[KEPT:]:
                path.unlink()
            self.make_room()

    def make_room(self):
        """Remove the files used longest ago, of whatever training, until the rest are within the limit."""
        files = sorted(((path.stat(), path) for path in self.folder.iterdir()), key=lambda entry: entry[0].st_mtime_ns)
        size = sum(stat.st_size for stat, _ in files)
        for stat, path in files:
            if size <= self.limit:
                break
            path.unlink(missing_ok=True)
            size -= stat.st_size
