"""Encoder f: image -> h, and head g: h -> z; their start values, their file, and applying them frozen."""
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from stages.lib.stage import Refused
from stages.lib.tables import replacing


class Network(nn.Module):
    """encoder: images in [0, 1], [B, 3, S, S] -> h [B, H]; head: h -> z [B, D] (before normalization).

    bfloat16: whether products are taken in that precision, as the loop does on a GPU; weights, h and z are float32 all the same.
    """

    def __init__(self, recipe, side):
        super().__init__()
        self.recipe, self.side, self.bfloat16 = recipe, side, False
        if recipe["name"] == "small":
            self.encoder, width = small(recipe["layers"], recipe["norm"], recipe["h"], side), recipe["h"]
        else:
            self.encoder, width = resnet(recipe["name"], recipe["norm"], side)
        self.head = head(recipe["head"], width, recipe["hidden"], recipe["z"])

    def forward(self, images):
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.bfloat16):
            h = self.encoder(images)
            z = self.head(h)
        return (h.float(), z.float()) if self.bfloat16 else (h, z)


def small(layers, norm, width, side):
    """3x3 convolutions with ReLU, `layers` giving (channels, stride) of each, then a linear layer to h with ReLU."""
    parts, inputs = [], 3
    for outputs, stride in layers:
        parts += [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), *normalization(norm, outputs), nn.ReLU(inplace=True)]
        inputs, side = outputs, -(-side // stride)
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(inputs * side * side, width), nn.ReLU(inplace=True))


def resnet(name, norm, side):
    """(torchvision's ResNet up to its last average, the size of h).

    Differs: up to 64 pixels the stem is a 3x3 convolution of stride 1 without max-pooling (SimCLR, appendix B.9); the
    stem made for ImageNet would leave 32 pixels a map of 8.
    """
    from torchvision.models import resnet18, resnet50  # slow to import, and needed for these two encoders alone

    network = {"resnet18": resnet18, "resnet50": resnet50}[name](norm_layer=lambda channels: normalization(norm, channels)[0])
    if side <= 64:
        network.conv1, network.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    width, network.fc = network.fc.in_features, nn.Identity()
    return network, width


def normalization(kind, channels):
    """`group` normalizes inside an image (groups of at least channels / 8) and cannot leak which views pair.

    `batch` mixes the rows of a batch, so a network can tell a pair by its statistics (MoCo, section 3.3); over processes
    on GPUs it is synchronized, elsewhere the same as BatchNorm2d.
    """
    return {"none": [], "group": [nn.GroupNorm(math.gcd(8, channels), channels)], "batch": [nn.SyncBatchNorm(channels)]}[kind]


def head(kind, inputs, hidden, outputs):
    """`none` makes z = h; `linear` one layer; `mlp` one hidden layer (SimCLR, section 4.2)."""
    if kind == "none":
        return nn.Identity()
    if kind == "linear":
        return nn.Linear(inputs, outputs)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs))


def start(recipe, side, seed):
    """A Network with start values drawn from `seed` alone.

    Layers with a bias: U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's own rule. Convolutions without one, which only the
    ResNets have: N(0, 2 / fan_out) (He et al. 2015, equation 14), torchvision's own rule for them.
    """
    with torch.device("meta"):
        network = Network(recipe, side)
    network.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d) and layer.bias is None:
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(layer, (nn.Conv2d, nn.Linear)):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        elif isinstance(layer, (nn.GroupNorm, nn.SyncBatchNorm)):
            layer.reset_parameters()
    return network


def save_network(path, network):
    """Weights and buffers as `encoder.*` and `head.*`, with the recipe of the network in the file's metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    recipe = json.dumps({"encoder": network.recipe, "side": network.side, "of": owner(path)}, sort_keys=True)
    with replacing(path, "wb") as file:
        file.write(save(tensors, {"recipe": recipe}))


def owner(path):
    """The run and the seed that the path of a file of weights names, <run>/<seed>.safetensors."""
    return [Path(path).parent.name, Path(path).stem]


def load_network(path):
    """The frozen Network in a file of `save_network`: eval mode, no gradients."""
    try:
        with safe_open(path, "pt") as file:
            recipe = json.loads(file.metadata()["recipe"])
            if recipe["of"] != owner(path):
                raise Refused(f"{path}: holds the weights of run {recipe['of'][0]}, seed {recipe['of'][1]}; rerun the run's pretrain stage")
            network = Network(recipe["encoder"], recipe["side"])
            network.load_state_dict({name: file.get_tensor(name) for name in list(file.keys())})
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as fault:
        raise Refused(f"{path}: not weights that this pipeline wrote ({type(fault).__name__}); rerun the run's pretrain stage") from None
    return network.eval().requires_grad_(False)


def fingerprint(network):
    """sha256 over every weight and buffer, by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def apply(network, images, batch_size, report=lambda rows: None):
    """h float32 [N, H] and z [N, D] of uint8 images [N, 3, S, S], in the order given, with a frozen network."""
    batches = (images[first : first + batch_size] for first in range(0, len(images), batch_size))
    return [np.concatenate(parts) for parts in zip(*applied(network, batches, report), strict=True)]


@torch.inference_mode()
def applied(network, batches, report=lambda rows: None):
    """Yields h float32 [B, H] and z [B, D] of each batch of uint8 images [B, 3, S, S].

    A checksum of weights and buffers before and after proves that nothing was learned meanwhile.
    """
    device = next(network.parameters()).device
    before = fingerprint(network)
    for batch in batches:
        rows = torch.from_numpy(np.array(batch)).to(device)
        yield [space.float().cpu().numpy() for space in network(rows.float() / 255)]
        report(len(rows))
    if fingerprint(network) != before:
        raise AssertionError("the frozen encoder changed while it was read out")
