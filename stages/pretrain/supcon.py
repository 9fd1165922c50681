"""SupCon: train images, two views each, and who counts as the same -> encoder and head, by a loss with several positives.

L_i = -1/|P(i)| sum_{p in P(i)} log( exp(cos(z_i, z_p) / t) / sum_{k != i} exp(cos(z_i, z_k) / t) )      (Khosla et al. 2020, equation 2)
"""
from stages.lib.infonce import guessing, sup_con
from stages.lib.loop import Objective, pretrain
from stages.lib.stage import run
from stages.lib.together import gathered


class SupCon(Objective):
    def forward(self, views, ids):
        z = gathered(self.network(views)[1], len(ids))
        loss, candidates, positives = sup_con(z, self.source.same(ids, ids), self.recipe["pretrain"]["normalize"], self.recipe["temperature"])
        left_out = (positives == 0).sum().item()
        return loss, z, {"reference": guessing(candidates), "positives": positives.double().mean().item(), "left_out": left_out}


def main(plan, images, split, relation, models, curves, staleness, resume):
    pretrain(SupCon, plan, images, split, relation, models, curves, staleness, resume)


if __name__ == "__main__":
    run(main)
