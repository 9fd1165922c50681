"""Untrained: the start values of a seed's encoder and head, never trained: the floor that each trained run is compared with."""
from stages.lib.loop import Objective, pretrain
from stages.lib.stage import run


def main(plan, images, split, relation, models, curves, staleness, resume):
    pretrain(Objective, plan, images, split, relation, models, curves, staleness, resume)


if __name__ == "__main__":
    run(main)
