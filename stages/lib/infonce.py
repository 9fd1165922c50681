"""The InfoNCE family: similarities of embeddings, who is a candidate, and the loss; float32 or more, in the log domain."""
import torch
import torch.nn.functional as F


def unit_rows(z):
    """z / |z| by rows, [N, D], in at least float32; a zero row stays zero, with a finite gradient.

    Differs from F.normalize, whose eps of 1e-12 turns the gradient of a tiny row into 1e12.
    """
    z = z if z.dtype == torch.float64 else z.float()
    scale = z.detach().abs().amax(dim=1, keepdim=True)  # divide by the largest entry first: no square over- or underflows
    zero = scale == 0
    z = z / torch.where(zero, torch.ones_like(scale), scale)
    norm = torch.where(zero, torch.ones_like(scale), z.square().sum(dim=1, keepdim=True)).sqrt()
    return z / norm


def cosines(z, others=None):
    """Cosine similarity of every row of z with every row of others (of z itself if none), [N, M]."""
    z = unit_rows(z)
    return z @ (z if others is None else unit_rows(others)).T


def partner(count, device=None):
    """Where row i's other view lies among `count` = 2B concatenated rows: i + B, or i - B for the second half; int64 [2B]."""
    return torch.arange(count, device=device).roll(count // 2)


def nt_xent(z, temperature):
    """The NT-Xent loss of SimCLR: each row picks its other view among 2B - 1 candidates, itself excluded.

    z: [2B, D], first views then second views. Returns (loss in nats, mean over rows; number of candidates 2B - 1).
    Source: Chen et al. 2020, "A Simple Framework for Contrastive Learning", equation 1 and algorithm 1.
    """
    logits = cosines(z) / temperature
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    loss = F.cross_entropy(logits.masked_fill(itself, -torch.inf), partner(len(z), z.device))
    return loss, len(z) - 1


@torch.no_grad()
def matched(z):
    """Share of rows of z [2B, D] whose most similar other row is their own other view: comparable between objectives."""
    similarity = cosines(z).fill_diagonal_(-torch.inf)
    return (similarity.argmax(dim=1) == partner(len(z), z.device)).float().mean()
