"""The ring of past keys, and the key network that follows the query network: MoCo's two memories."""
from itertools import chain

import torch
from torch import nn

STALENESS = ["seed", "epoch", "age_steps", "cosine", "n"]  # columns of the table that tells how far stored keys have drifted


class Ring(nn.Module):
    """The last K keys, first in, first out, each with its image and with when and how it was made; everything is a buffer.

    keys: [K, D]; ids: int64 [K], images; epochs: int64 [K], the epoch of the view; made: int64 [K], steps of the key network
    when it encoded the view. `pointer` is where the oldest key lies, the next to be overwritten.
    """

    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, width))
        for name in ("ids", "epochs", "made"):
            self.register_buffer(name, torch.full((size,), -1))
        self.register_buffer("pointer", torch.tensor(0))

    @torch.no_grad()
    def enqueue(self, keys, ids, epochs, made):
        """Overwrite the oldest entries with keys [B, D] in their order, any B; of more keys than places the last ones stay.

        ids: int64 [B]; epochs and made: int64 [B], or one number for all.
        """
        size, count = len(self.keys), len(keys)
        places = (self.pointer + torch.arange(count, device=keys.device)) % size
        last = slice(max(0, count - size), count)
        for buffer, values in ((self.keys, keys), (self.ids, ids), (self.epochs, epochs), (self.made, made)):
            values = torch.as_tensor(values, device=buffer.device).expand(count, *buffer.shape[1:])
            buffer[places[last]] = values[last].to(buffer.dtype)
        self.pointer.copy_((self.pointer + count) % size)

    def oldest_first(self):
        """The places of the ring from the oldest key to the newest, int64 [K]."""
        return (self.pointer + torch.arange(len(self.keys), device=self.keys.device)) % len(self.keys)


@torch.no_grad()
def follow(key, query, momentum):
    """theta_key <- m theta_key + (1 - m) theta_query, for parameters and buffers (He et al. 2020, equation 2); m = 0 copies, m = 1 freezes.

    Differs: MoCo averages parameters only and leaves the buffers (running statistics) of the key network to its own batches.
    A whole number (a counter of batches) is copied.
    """
    for slow, fast in zip(chain(key.parameters(), key.buffers()), chain(query.parameters(), query.buffers()), strict=True):
        if slow.is_floating_point():
            slow.mul_(momentum).add_(fast, alpha=1 - momentum)
        else:
            slow.copy_(fast)
