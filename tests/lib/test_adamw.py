import subprocess
import sys

import torch

from stages.lib.adamw import AdamW


def trained(make):
    """Weights after twenty steps on a quadratic, with a state saved and loaded in the middle."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.rand(5, 3, generator=generator)), torch.nn.Parameter(torch.rand(3, generator=generator))]
    optimizer = make(weights)
    for step in range(20):
        optimizer.zero_grad()
        (((step + 1) * weights[0] - weights[1]) ** 2).sum().backward()
        optimizer.step()
        if step == 9:
            state = optimizer.state_dict()
            optimizer = make(weights)
            optimizer.load_state_dict(state)
    return torch.cat([weight.detach().flatten() for weight in weights])


def test_steps_equal_those_of_pytorch_bit_by_bit():
    theirs = trained(lambda weights: torch.optim.AdamW(weights, lr=0.01, weight_decay=0.1, fused=True))
    assert torch.equal(trained(lambda weights: AdamW(weights, lr=0.01, weight_decay=0.1, fused=True)), theirs)


def test_a_step_imports_no_compiler():
    code = ("import sys, torch; from stages.lib.adamw import AdamW; p = torch.nn.Parameter(torch.ones(2)); o = AdamW([p], lr=0.1, fused=True); "
            "o.zero_grad(); p.sum().backward(); o.step(); o.load_state_dict(o.state_dict()); print('torch._dynamo' in sys.modules, p.tolist())")
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("False [0.899")
