"""The InfoNCE family: similarities of embeddings, who is a candidate, and the losses; float32 or more, in the log domain."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def wide(z):
    """z in at least float32: half precision has too few digits for a softmax over many candidates."""
    return z if z.dtype == torch.float64 else z.float()


def unit_rows(z):
    """z / |z| by rows, [N, D], in at least float32; a zero row stays zero, with a finite gradient.

    Differs from F.normalize, whose eps of 1e-12 turns the gradient of a tiny row into 1e12.
    """
    z = wide(z)
    scale = z.detach().abs().amax(dim=1, keepdim=True)  # divide by the largest entry first: no square over- or underflows
    zero = scale == 0
    z = z / torch.where(zero, torch.ones_like(scale), scale)
    norm = torch.where(zero, torch.ones_like(scale), z.square().sum(dim=1, keepdim=True)).sqrt()
    return z / norm


def compared(z, normalize):
    """The rows whose dot products are the similarities: unit rows (so these are cosines), or z as it is."""
    return unit_rows(z) if normalize else wide(z)


def cosines(z, others):
    """Cosine similarity of every row of z [N, D] with every row of others [M, D], [N, M]."""
    return unit_rows(z) @ unit_rows(others).T


def partner(count, device=None):
    """Where row i's other view lies among `count` = 2B concatenated rows: i + B, or i - B for the second half; int64 [2B]."""
    return torch.arange(count, device=device).roll(count // 2)


def info_nce(similarity, positive, negative, temperature, debias, hardness, filter_above):
    """InfoNCE: each anchor picks its one positive among its candidates, the positive and its negatives.

    similarity: [A, C]; positive: int64 [A], the column of an anchor's positive; negative: bool [A, C], which columns are its
    negatives (never the positive); temperature: t > 0, a number or a tensor without dimensions.
    Returns (loss in nats, mean over anchors; number of candidates int64 [A]):
    L_i = -log( exp(s_i+ / t) / (exp(s_i+ / t) + sum_j exp(s_ij / t)) )     (van den Oord et al. 2018, equation 4)
    debias: prior probability that a negative is a false one; hardness: the weight of a negative grows with
    exp(hardness s_ij / t); both as in `negative_mass`. filter_above: a negative of larger similarity is no candidate (elimination
    of suspected false negatives, Huynh et al. 2022; differs: by a threshold, they take the most similar few).
    With debias 0, hardness 0 and filter_above 1 this is the plain loss, bit by bit.
    """
    if filter_above < 1:
        negative = negative & (similarity <= filter_above)
    candidates = 1 + negative.sum(dim=1)
    logits = similarity / temperature
    if debias == 0 and hardness == 0:
        chosen = negative.scatter(1, positive[:, None], True)
        return F.cross_entropy(logits.masked_fill(~chosen, -torch.inf), positive), candidates
    of_positive = logits.gather(1, positive[:, None])[:, 0]
    mass = negative_mass(logits, of_positive, negative, temperature, debias, hardness)
    rows = torch.logaddexp(mass - of_positive, torch.zeros_like(mass))
    return torch.where(candidates > 1, rows, torch.zeros_like(rows)).mean(), candidates


def negative_mass(logits, of_positive, negative, temperature, debias, hardness):
    """log of what the N negatives of each anchor add to its denominator, [A]; plain would be log sum_j exp(l_j).

    hardness b: sum_j w_j exp(l_j), w_j = exp(b l_j) / mean_k exp(b l_k)   (Robinson et al. 2021, equation 4 and their code)
    debias p:   N max( (that / N - p exp(l+)) / (1 - p), exp(-1 / t) )     (Chuang et al. 2020, equations 7 and 8, one positive)
    Differs: the weights use l = s / t, as the authors' code does, where the paper writes similarities of vectors of length 1 / t.
    """
    count = negative.sum(dim=1)
    negative = negative | (count == 0)[:, None]  # an anchor without negatives gets a finite value, which the caller drops
    log_count = count.clamp(min=1).to(logits.dtype).log()

    def log_sum(power):
        return (power * logits).masked_fill(~negative, -torch.inf).logsumexp(dim=1)

    mass = log_sum(1 + hardness) - log_sum(hardness) + log_count
    if debias == 0:
        return mass
    false = math.log(debias) + log_count + of_positive
    least = log_count - 1 / temperature  # no cosine is below -1
    positive_rest = false < mass
    gap = torch.where(positive_rest, false - mass, -torch.ones_like(mass))  # finite in both branches, so that the gradient is
    rest = mass + torch.log(-torch.expm1(gap)) - math.log1p(-debias)
    return torch.where(positive_rest, torch.maximum(rest, least), least)


def nt_xent(z, same, normalize, temperature, **options):
    """The NT-Xent loss of SimCLR: each row picks its other view among the other rows.

    z: [2B, D], first views then second views; same: bool [B, B], which images count as the same.
    Returns (loss in nats, mean over rows; number of candidates int64 [2B]: 2B - 1 where all images differ).
    Source: Chen et al. 2020, "A Simple Framework for Contrastive Learning", equation 1 and algorithm 1.
    Differs: images that count as the same (exact duplicates, say) are no negatives of each other.
    """
    rows = compared(z, normalize)
    return info_nce(rows @ rows.T, partner(len(z), z.device), ~same.repeat(2, 2), temperature, **options)


def sup_con(z, same, normalize, temperature):
    """Supervised contrastive loss: every other view of an image that counts as the same is a positive.

    z: [2B, D], same: bool [B, B], as for nt_xent. Returns (loss in nats; candidates int64 [A]; positives int64 [2B]), the mean
    over the A anchors that have a positive:
    L_i = -1/|P(i)| sum_{p in P(i)} log( exp(s_ip / t) / sum_{a != i} exp(s_ia / t) )     (Khosla et al. 2020, equation 2, L_out)
    Differs from the authors' code, which multiplies by t / base_temperature; the equation does not.
    """
    rows = compared(z, normalize)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    return multi_positive(rows @ rows.T, same.repeat(2, 2) & ~itself, ~itself, temperature)


def multi_positive(similarity, positive, candidate, temperature):
    """(loss, candidates [A], positives [N]) of `sup_con` for any masks: similarity, positive, candidate [N, M]."""
    log_p = F.log_softmax((similarity / temperature).masked_fill(~candidate, -torch.inf), dim=1)
    positives = positive.sum(dim=1)
    kept = positives > 0
    rows = -torch.where(positive, log_p, torch.zeros_like(log_p)).sum(dim=1) / positives.clamp(min=1)
    return rows.sum() / kept.sum().clamp(min=1), candidate.sum(dim=1)[kept], positives


def guessing(candidates):
    """Mean over anchors of log(number of candidates), in nats: the loss of a network that cannot tell them apart."""
    numbers, anchors = candidates.unique(return_counts=True)
    return sum(math.log(number) * (count / len(candidates)) for number, count in zip(numbers.tolist(), anchors.tolist(), strict=True))


class Temperature(nn.Module):
    """The temperature of a run: a number, or, given the bounds `learned` = [low, high], trained as its logarithm.

    A scalar, so without weight decay. As in CLIP (Radford et al. 2021, section 2.5): log-parameterized and clamped.
    """

    def __init__(self, value, learned):
        super().__init__()
        self.value, self.bounds = value, learned and [math.log(bound) for bound in learned]
        if learned:
            self.log = nn.Parameter(torch.tensor(math.log(value)))

    def forward(self):
        return self.log.exp() if self.bounds else self.value

    def number(self):
        """Its value now, a Python number."""
        return self().item() if self.bounds else self.value

    @torch.no_grad()
    def clamp(self):
        """After a step: back into the bounds."""
        if self.bounds:
            self.log.clamp_(*self.bounds)


@torch.no_grad()
def matched(z):
    """Share of rows of z [2B, D] whose most similar row among the other views is their own: comparable between objectives."""
    first, second = z.chunk(2)
    similarity = cosines(first, second)
    own = torch.arange(len(first), device=z.device)
    return (torch.cat([similarity.argmax(dim=1), similarity.argmax(dim=0)]) == own.repeat(2)).float().mean()
