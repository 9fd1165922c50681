"""SimCLR: train images, two views each -> encoder and head, by the NT-Xent loss over the batch.

L_i = -log( exp(cos(z_i, z_partner) / t) / sum_{k != i} exp(cos(z_i, z_k) / t) )      (Chen et al. 2020, equation 1)
"""
import math

from stages.lib.infonce import nt_xent
from stages.lib.loop import Objective, pretrain
from stages.lib.stage import run


class SimCLR(Objective):
    def forward(self, views, groups):
        _, z = self.network(views)
        loss, candidates = nt_xent(z, self.recipe["temperature"])
        return loss, z, {"reference": math.log(candidates)}


def main(plan, images, split, relation, models, curves):
    pretrain(SimCLR, plan, images, split, relation, models, curves)


if __name__ == "__main__":
    run(main)
