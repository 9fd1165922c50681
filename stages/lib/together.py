"""Several processes train one network: who takes which images, what they hand each other, and which of them speaks.

Each process makes the views of its share of a batch and hands on their z; with the z of all, each computes the loss of the
whole batch. So the loss is that of one process, and its gradient is the sum of what the shares contribute. With one process every
function here returns what it was given.
"""
import contextlib
import os
import shlex
import shutil
import sys

import torch
import torch.distributed as dist
from threadpoolctl import threadpool_limits

from stages.lib.stage import Refused


def rank():
    """The number of this process among those that train a network together, from 0; the first one writes."""
    return dist.get_rank() if dist.is_initialized() else 0


def world():
    """How many processes train a network together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def share(count):
    """The slice of `count` rows that is this process's; shares follow each other and their lengths differ by at most one."""
    return slice(count * rank() // world(), count * (rank() + 1) // world())


def gathered(z, images):
    """The z of all `images` of a batch: from [V b, D], V views of the images of this process's share, [V B, D] in the same layout, with gradient."""
    return z if world() == 1 else _Gathered.apply(z, images)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context, z, images):
        context.images, mine = images, share(images)
        whole = z.new_zeros(len(z) // (mine.stop - mine.start), images, *z.shape[1:])
        whole[:, mine] = z.unflatten(0, (len(whole), -1))
        _with_all(dist.all_reduce, whole)  # the sum with zeros; all_gather would want shares of equal length
        return whole.flatten(0, 1)

    @staticmethod
    def backward(context, gradient):
        """Nothing is exchanged: every process knows the whole loss, so its share of the gradient is complete. Times their number, as `average` divides."""
        mine = gradient.unflatten(0, (-1, context.images))[:, share(context.images)]
        return mine.flatten(0, 1) * world(), None


def average(parameters):
    """Replace each gradient by its mean over the processes.

    Of the network these are W times what a share contributes, so their mean is the sum over shares; what acts on gathered z, such as a
    temperature, has the gradient of the whole loss in each process already.
    """
    if world() == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    _with_all(dist.all_reduce, flat)
    for gradient, mean in zip(gradients, (flat / world()).split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def from_first(make):
    """What `make()` returns in the first process, the only one that calls it, for all."""
    if world() == 1:
        return make()
    box = [make() if rank() == 0 else None]
    _with_all(dist.broadcast_object_list, box)
    return box[0]


def _with_all(exchange, *arguments):
    try:
        exchange(*arguments)
    except RuntimeError as fault:
        why = str(fault).splitlines()[0][:160]
        raise Refused(f"another of the {world()} processes of this training ended, or cannot be reached ({why}); no weights were written") from None


@contextlib.contextmanager
def joined(processes, device):
    """While the block runs, this process is one of `processes` that PRETRAIN_LAUNCHER started. Of their errors, only the first is told."""
    _launch()
    number, started = _counted()
    store = _meet(number, started) if started > 1 else None
    try:
        if started != processes:
            launcher = "the launcher started" if {"WORLD_SIZE", "PRETRAIN_LAUNCHED"} & os.environ.keys() else "without PRETRAIN_LAUNCHER there is"
            raise Refused(f"pretrain.processes: {processes}, but {launcher} {started}; allowed: equal numbers (docs/distributed.md)")
        if store:
            if device == "cuda":
                take_gpu(int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0))))
            torch.set_num_threads(1)  # as the workers of one process have: the bytes do not depend on the number of cores
            threadpool_limits(1)
            dist.init_process_group({"cpu": "gloo", "cuda": "nccl"}[device], store=store, rank=number, world_size=started)
        yield
        if store:
            _with_all(dist.barrier)  # nobody leaves before the first has written
            dist.destroy_process_group()
    except BaseException:
        if store and not _is_first(store):
            sys.exit(1)
        raise


def _meet(number, processes):
    """The store over which the processes find each other."""
    try:
        return next(dist.rendezvous("env://", number, processes))[0]
    except (RuntimeError, ValueError) as fault:
        raise Refused(f"the {processes} processes of this training do not find each other: {str(fault).splitlines()[0]} (docs/distributed.md)") from None


def _is_first(store):
    """Whether no other process has failed before."""
    try:
        return store.add("faults", 1) == 1
    except RuntimeError:  # the store went with the process that held it
        return False


def take_gpu(number):
    """Use the GPU of this number, counted in turn; called where it is used, since a process that has asked for CUDA cannot be forked."""
    if not torch.cuda.is_available():
        raise Refused("device: cuda was asked for, but PyTorch finds no CUDA device here; allowed here: cpu")
    torch.cuda.set_device(number % torch.cuda.device_count())


def _counted():
    """(number of this process, processes) as torchrun, or srun that `_launch` called, tells in the environment."""
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "PRETRAIN_LAUNCHED" in os.environ and "SLURM_STEP_NUM_TASKS" in os.environ:
        return int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_STEP_NUM_TASKS"])
    return 0, 1


def _launch():
    """Where PRETRAIN_LAUNCHER is set, become that command with the module and the arguments of this one: it takes the place of `python`."""
    words = shlex.split(os.environ.get("PRETRAIN_LAUNCHER", ""))
    if not words or {"WORLD_SIZE", "PRETRAIN_LAUNCHED"} & os.environ.keys():
        return
    if not shutil.which(words[0]):
        raise Refused(f"PRETRAIN_LAUNCHER: {words[0]} is not found; allowed: a command that takes the place of python, such as torchrun --nproc-per-node 2")
    sys.stdout.flush()
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PRETRAIN_LAUNCHED": "1"}
    os.execvpe(words[0], [*words, "-m", sys.modules["__main__"].__spec__.name, *sys.argv[1:]], environment)
