"""SimCLR through its network: both views learn."""
import torch
from small_data import write_inputs
from test_infonce import PLAIN, apart, loop_nt_xent
from test_objectives import source

from stages.lib.encoder import start
from stages.lib.tables import read_json
from stages.pretrain.simclr import SimCLR


def test_the_gradient_of_the_weights_flows_through_both_views_as_in_the_double_loop(tmp_path):
    paths = write_inputs(tmp_path, "simclr")
    recipe, ids = read_json(paths["plan"]), torch.arange(4)
    learner = SimCLR(start(recipe["encoder"], 8, 3), recipe, source(paths)).double()
    views = learner.source.views(ids, 1).double()
    ours = torch.autograd.grad(learner(views, ids)[0], list(learner.network.parameters()))
    theirs = torch.autograd.grad(loop_nt_xent(learner.network(views)[1], apart(4), True, 0.2, **PLAIN), list(learner.network.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
