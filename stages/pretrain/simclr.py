"""SimCLR: train images, two views each -> encoder and head, by the NT-Xent loss over the batch.

L_i = -log( exp(cos(z_i, z_partner) / t) / sum_{k != i} exp(cos(z_i, z_k) / t) )      (Chen et al. 2020, equation 1)
"""
from stages.lib.infonce import Temperature, guessing, nt_xent
from stages.lib.loop import Objective, pretrain
from stages.lib.stage import run
from stages.lib.together import gathered


class SimCLR(Objective):
    def __init__(self, network, recipe, source):
        super().__init__(network, recipe, source)
        self.options = dict(recipe["negatives"])
        self.temperature = Temperature(recipe["temperature"], self.options.pop("learn_temperature"))

    def forward(self, views, ids):
        z = gathered(self.network(views)[1], len(ids))
        loss, candidates = nt_xent(z, self.source.same(ids, ids), self.recipe["pretrain"]["normalize"], self.temperature(), **self.options)
        return loss, z, {"reference": guessing(candidates), "temperature": self.temperature.number()}

    def after_step(self, ids, epoch):
        self.temperature.clamp()


def main(plan, images, split, relation, models, curves, staleness, resume):
    pretrain(SimCLR, plan, images, split, relation, models, curves, staleness, resume)


if __name__ == "__main__":
    run(main)
