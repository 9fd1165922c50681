"""Encoders: sizes as published, start values from the seed alone, stems by image size, and weights that come back from their file."""
import numpy as np
import pytest
import torch
from torch import nn

from stages.lib.encoder import Network, load_network, normalization, resnet, save_network, small, start

SMALL = {"name": "small", "layers": [[16, 2], [32, 2]], "norm": "none", "h": 48, "head": "mlp", "hidden": 48, "z": 24}
RESNET = {"name": "resnet18", "norm": "group", "head": "linear", "hidden": 8, "z": 4}


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_small_has_3_to_16_to_32_channels_and_a_linear_layer():
    assert size(small([[16, 2], [32, 2]], "none", 48, 16)) == (27 + 1) * 16 + (9 * 16 + 1) * 32 + (32 * 4 * 4 + 1) * 48 == 29712


@pytest.mark.parametrize("name, side, parameters, width", [("resnet18", 32, 11_168_832, 512), ("resnet50", 32, 23_500_352, 2048),
                                                           ("resnet18", 65, 11_176_512, 512), ("resnet50", 224, 23_508_032, 2048)])
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_resnets_have_the_published_number_of_parameters_without_the_classifier(name, side, parameters, width, norm):
    """11,689,512 - 513,000 and 25,557,032 - 2,049,000 with the stem for ImageNet; 7,680 fewer with 3x3 in place of 7x7."""
    with torch.device("meta"):
        network, found = resnet(name, norm, side)
    assert size(network) == parameters and found == width


def test_up_to_64_pixels_the_stem_keeps_the_resolution():
    for side, first in ((32, 32), (64, 64), (96, 24)):
        with torch.device("meta"):
            network, _ = resnet("resnet18", "group", side)
            images = torch.empty(2, 3, side, side)
            stem = network.maxpool(network.relu(network.bn1(network.conv1(images))))
            assert stem.shape[-1] == first and network(images).shape == (2, 512)


@pytest.mark.parametrize("recipe", [SMALL, RESNET, {**RESNET, "norm": "batch"}])
def test_start_values_come_from_the_seed_alone(recipe):
    torch.manual_seed(1)
    first = start(recipe, 16, seed=7).state_dict()
    torch.manual_seed(2)
    again, other = start(recipe, 16, seed=7).state_dict(), start(recipe, 16, seed=8).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].ndim > 1)


def test_convolutions_of_a_resnet_start_at_variance_2_over_fan_out():
    network = start(RESNET, 16, seed=7).encoder
    weight = network.layer4[0].conv1.weight  # 256 to 512 channels
    assert weight.std().item() == pytest.approx((2 / (9 * 512)) ** 0.5, rel=0.01)
    assert torch.equal(network.bn1.weight, torch.ones(64)) and torch.equal(network.bn1.bias, torch.zeros(64))


def test_group_normalization_gives_an_image_the_same_h_in_any_batch_and_batch_normalization_does_not():
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    for norm, equal in (("group", True), ("batch", False)):
        network = start({**RESNET, "norm": norm}, 8, seed=7).train()
        with torch.no_grad():
            assert torch.allclose(network(images)[0][:2], network(images[:2])[0], atol=1e-5) == equal


def test_batch_normalization_on_one_process_is_pytorchs():
    images = torch.rand(6, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    ours, theirs = normalization("batch", 4)[0], nn.BatchNorm2d(4)
    for _ in range(2):
        assert torch.equal(ours.train()(images), theirs.train()(images))
    assert torch.equal(ours.eval()(images), theirs.eval()(images)) and ours.state_dict().keys() == theirs.state_dict().keys()


@pytest.mark.parametrize("recipe", [SMALL, {**RESNET, "norm": "batch"}])
def test_weights_come_back_from_their_file(tmp_path, recipe):
    network = start(recipe, 16, seed=7)
    save_network(tmp_path / "7.safetensors", network)
    loaded = load_network(tmp_path / "7.safetensors")
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in network.state_dict().items())
    assert loaded.side == 16 and not loaded.training and not any(parameter.requires_grad for parameter in loaded.parameters())
    assert np.isfinite(loaded(torch.zeros(2, 3, 16, 16))[1].numpy()).all()


def test_a_head_of_none_makes_z_equal_h():
    network = Network({**SMALL, "head": "none"}, 16)
    h, z = network(torch.rand(2, 3, 16, 16))
    assert torch.equal(h, z)
