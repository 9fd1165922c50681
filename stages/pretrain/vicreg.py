"""VICReg: train images, two views each -> encoder and head, without negatives: three terms keep rows alike, spread and uncorrelated.

L = invariance * mean (z - z')^2  +  variance * [v(z) + v(z')] / 2  +  covariance * [c(z) + c(z')]
v(z) = mean over dimensions of max(0, 1 - sqrt(Var(z_d) + eps)),  c(z) = 1/D sum_{d != e} Cov(z_d, z_e)^2
(Bardes et al. 2022, equations 1 to 6. Differs from equation 6, as the authors' code does: v is averaged over the two views.)
"""
import torch.nn.functional as F

from stages.lib.infonce import wide
from stages.lib.loop import Objective, pretrain
from stages.lib.stage import run
from stages.lib.together import gathered

EPS = 1e-4  # inside the root: keeps its gradient finite where a dimension has no variance


def vicreg(z, invariance, variance, covariance):
    """(loss, {term: its value before weighting}) of z [2B, D], row i pairing with i + B; at least float32, not normalized.

    Rows that are all equal give variance * (1 - sqrt(eps)), which is 24.75 for the usual weight of 25.
    """
    first, second = wide(z).chunk(2)
    terms = {"invariance": F.mse_loss(first, second),
             "variance": (spread_missing(first) + spread_missing(second)) / 2,
             "covariance": correlated(first) + correlated(second)}
    return invariance * terms["invariance"] + variance * terms["variance"] + covariance * terms["covariance"], terms


def spread_missing(z):
    """Mean over the dimensions of max(0, 1 - standard deviation); unbiased variance, eps inside the root."""
    return F.relu(1 - (z.var(dim=0) + EPS).sqrt()).mean()


def correlated(z):
    """Sum of the squared covariances of different dimensions, over D."""
    z = z - z.mean(dim=0)
    covariance = z.T @ z / (len(z) - 1)
    return (covariance.square().sum() - covariance.diagonal().square().sum()) / z.shape[1]


class VICReg(Objective):
    def forward(self, views, ids):
        z = gathered(self.network(views)[1], len(ids))
        weights = self.recipe["vicreg"]
        loss, terms = vicreg(z, **weights)
        collapsed = weights["variance"] * (1 - EPS**0.5)
        return loss, z, {"reference": collapsed, **{name: term.item() for name, term in terms.items()}}


def main(plan, images, split, relation, models, curves, staleness, resume):
    pretrain(VICReg, plan, images, split, relation, models, curves, staleness, resume)


if __name__ == "__main__":
    run(main)
