"""Explain: the hand-worked numbers of contrastive learning, and one real step of SimCLR and of MoCo, by the functions that train.

Writes the numbers as JSON and each traced step as arrays (npz): images, views, h, z, similarities, candidates, probabilities,
losses, gradient norms, how far each part moved, and for MoCo the ring before and after. Differs from the runs it follows:
batches and ring are small enough to be looked at, and negatives are plain.
"""
import copy
import math

import numpy as np
import torch

from stages.lib.adamw import AdamW
from stages.lib.checks import load_images, load_split
from stages.lib.encoder import start
from stages.lib.infonce import compared, cosines, info_nce, nt_xent, partner
from stages.lib.loop import parameter_groups
from stages.lib.ring import Ring, follow
from stages.lib.spectrum import effective_rank
from stages.lib.stage import Refused, run
from stages.lib.tables import read_json, read_params, replacing, write_json
from stages.lib.views import pair_of_views

PLAIN = {"debias": 0, "hardness": 0, "filter_above": 1}
# similarities of one anchor to its candidates, the positive first, and temperatures: the examples of the source documents
EXAMPLES = {"right_order": ([0.8, 0.4, 0.2], [1.0, 0.5, 0.1]), "wrong_order": ([0.3, 0.4, 0.2], [1.0, 0.5, 0.1]), "logits_2_1_0": ([1.0, 0.5, 0.0], [0.5]),
            "two_shoes_and_a_car": ([0.8, 0.6, 0.1], [0.2]), "four_views": ([0.9, 0.2, 0.1], [0.1, 1.0])}


def choice(similarities, temperature):
    """One anchor's choice: probabilities, loss, and its derivatives by each similarity and by each logit; the positive comes first."""
    s = torch.tensor([similarities], dtype=torch.float64, requires_grad=True)
    negative = torch.tensor([[False] + [True] * (len(similarities) - 1)])
    loss, _ = info_nce(s, torch.tensor([0]), negative, temperature, **PLAIN)
    by_similarity = torch.autograd.grad(loss, s)[0][0]
    return {"similarities": similarities, "temperature": temperature, "probabilities": rounded(softmax(s, temperature)[0]), "loss": rounded(loss),
            "by_similarity": rounded(by_similarity), "by_logit": rounded(by_similarity * temperature)}


def softmax(similarity, temperature):
    return (similarity.detach() / temperature).softmax(dim=1)


def rounded(values):
    """Ten digits: the last bits of a float64 differ between processors."""
    return np.round(values.detach().double().numpy(), 10).tolist() if isinstance(values, torch.Tensor) else round(float(values), 10)


def closed_forms():
    """Losses that can be told without a computer, computed all the same."""
    def loss(z, temperature):
        return rounded(nt_xent(z.double(), torch.eye(len(z) // 2, dtype=torch.bool), True, temperature, **PLAIN)[0])

    pairs = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    collapsed, _ = info_nce(torch.ones(3, 121, dtype=torch.float64), torch.zeros(3, dtype=torch.int64), torch.arange(121).expand(3, -1) > 0, 0.2, **PLAIN)
    return {"parallel_rows_of_4_images": loss(torch.ones(8, 3), 0.2), "log_7": rounded(math.log(7)),
            "two_orthogonal_pairs_at_1": loss(pairs, 1.0), "two_orthogonal_pairs_at_0.5": loss(pairs, 0.5),
            "moco_collapsed_with_120_keys": rounded(collapsed), "log_121": rounded(math.log(121)),
            "cosine_of_1_0_and_1_1": rounded(cosines(torch.tensor([[1.0, 0]]).double(), torch.tensor([[1.0, 1]]).double())[0, 0]),
            "effective_rank_of_5_identity_rows": rounded(effective_rank(np.eye(5))), "effective_rank_of_equal_rows": rounded(effective_rank(np.ones((5, 3))))}


def queue_update():
    """Six keys a to f in a ring of six, then g and h: the oldest two go."""
    ring, told = Ring(6, 1), []
    for text in ("abcdef", "gh"):
        codes = torch.tensor([ord(letter) for letter in text])
        ring.enqueue(codes[:, None], codes, 0, 0)
        told.append("".join(chr(code) for code in ring.ids[ring.oldest_first()].tolist()))
    return {"before": told[0], "added": "gh", "after": told[1]}


def key_steps(momentum, steps):
    """Where a key network with the parameters (0, 2) stands after each of some steps towards a query that stays at (2, 4)."""
    key, query = torch.nn.Linear(2, 1, bias=False).double(), torch.nn.Linear(2, 1, bias=False).double()
    key.weight.data[:], query.weight.data[:] = torch.tensor([0.0, 2.0]), torch.tensor([2.0, 4.0])
    places = [rounded(key.weight[0])]
    for _ in range(steps):
        follow(key, query, momentum)
        places.append(rounded(key.weight[0]))
    return places


def numbers(sweep, momenta, steps):
    """Everything of metrics/explain.json; sweep: temperatures, momenta: of the key network."""
    return {"choices": {name: [choice(similarities, t) for t in temperatures] for name, (similarities, temperatures) in EXAMPLES.items()},
            "constant_added": [choice([value + added for value in (0.8, 0.4, 0.2)], 0.5)["loss"] for added in (0, 1)],
            "sweep": {name: [choice(EXAMPLES[name][0], t) for t in sweep] for name in ("right_order", "wrong_order")},
            "closed_forms": closed_forms(), "queue": queue_update(),
            "key_momentum": [{"momentum": momentum, "places": key_steps(momentum, steps)} for momentum in momenta]}


def size(tensors):
    """Euclidean norm over all the numbers of some tensors."""
    return math.sqrt(sum(tensor.double().square().sum().item() for tensor in tensors))


def moved(network, before, of):
    """How far each part went from `before`, over the length of its weights there; of: prefixes of parameter names."""
    now = dict(network.named_parameters())
    names = [[name for name in before if name.startswith(part)] for part in of]
    return [size([now[name].detach() - before[name] for name in group]) / max(size([before[name] for name in group]), 1e-30) for group in names]


PARTS = ("encoder", "head")


def step(network, optimizer, loss):
    """One step of the optimizer: ({gradient: norm a part, moved: share a part})."""
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    optimizer.zero_grad()
    loss.backward()
    gradient = [size([value.grad for name, value in network.named_parameters() if name.startswith(part)]) for part in PARTS]
    optimizer.step()
    return {"gradient": gradient, "moved": moved(network, before, PARTS)}


def masked(similarity, candidate, temperature):
    """Probabilities [A, C] of the candidates, 0 elsewhere."""
    return softmax(similarity.masked_fill(~candidate, -torch.inf), temperature)


def trace_simclr(recipe, batches, side):
    """Train on all batches (images uint8 [B, 3, S, S], ids) and tell the last step."""
    network = start(recipe["encoder"], side, recipe["seed"])
    optimizer = AdamW(parameter_groups(network, recipe["pretrain"]["weight_decay"]), lr=recipe["pretrain"]["lr"], fused=True)
    temperature, normalize = recipe["temperature"], recipe["pretrain"]["normalize"]
    for images, ids in batches:
        views, same = pair_of_views(images, ids, recipe["views"], recipe["seed"], 1), ids[:, None] == ids
        h, z = network(views)
        loss, _ = nt_xent(z, same, normalize, temperature, **PLAIN)
        told = step(network, optimizer, loss)
    rows = compared(z, normalize)
    positive = partner(len(z))
    candidate = ~torch.eye(len(z), dtype=torch.bool)
    probability = masked(rows @ rows.T, candidate, temperature)
    after = nt_xent(network(views)[1], same, normalize, temperature, **PLAIN)[0]
    return {"ids": ids, "images": images, "views": views, "h": h, "z": z, "similarity": rows @ rows.T, "candidate": candidate, "positive": positive,
            "probability": probability, "losses": -probability[torch.arange(len(z)), positive].log(), "loss": loss, "loss_after": after, **told,
            "temperature": temperature}


def trace_moco(recipe, batches, side, queue):
    """The same for MoCo, with a ring of `queue` keys that the first batches fill."""
    network = start(recipe["encoder"], side, recipe["seed"])
    key_network = copy.deepcopy(network).requires_grad_(False)
    optimizer = AdamW(parameter_groups(network, recipe["pretrain"]["weight_decay"]), lr=recipe["pretrain"]["lr"], fused=True)
    temperature, normalize = recipe["temperature"], recipe["pretrain"]["normalize"]
    ring, filling = None, -(-queue // len(batches[0][1]))
    for number, (images, ids) in enumerate(batches):
        views = pair_of_views(images, ids, recipe["views"], recipe["seed"], 1)
        h, z = network(views[: len(ids)])
        keys = compared(key_network(views[len(ids):])[1], normalize)
        ring = ring or Ring(queue, keys.shape[1])
        if number < filling:
            ring.enqueue(keys, ids, 1, 0)
            continue
        queries, before = compared(z, normalize), copy.deepcopy(ring)
        similarity = torch.cat([(queries * keys).sum(dim=1, keepdim=True), queries @ ring.keys.T], dim=1)
        negative = torch.cat([torch.zeros(len(ids), 1, dtype=torch.bool), ids[:, None] != ring.ids], dim=1)
        loss, _ = info_nce(similarity, torch.zeros_like(ids), negative, temperature, **PLAIN)
        told = step(network, optimizer, loss)
        begun = {name: value.clone() for name, value in key_network.named_parameters()}
        ring.enqueue(keys, ids, 1, number - filling)
        follow(key_network, network, recipe["moco"]["key_momentum"])
    order = before.oldest_first()
    column = torch.cat([torch.tensor([0]), 1 + order])  # the positive, then the ring from the oldest key
    candidate = negative.scatter(1, torch.zeros_like(ids)[:, None], True)[:, column]
    probability = masked(similarity[:, column], candidate, temperature)
    return {"ids": ids, "images": images, "views": views, "h": h, "z": z, "queries": queries, "keys": keys, "similarity": similarity[:, column],
            "candidate": candidate, "probability": probability, "losses": -probability[:, 0].log(), "loss": loss, **told,
            "key_moved": moved(key_network, begun, PARTS), "key_momentum": recipe["moco"]["key_momentum"], "temperature": temperature,
            "ring_ids": before.ids[order], "ring_age": number - filling - before.made[order], "ring_keys": before.keys[order],
            "ring_ids_after": ring.ids[ring.oldest_first()]}


def main(params, simclr_plan, moco_plan, images, split, numbers_json, simclr_trace, moco_trace):
    settings = read_params(params, "explain")
    torch.set_num_threads(1)
    pixels = load_images(images)
    train = load_split(split, len(pixels))["train"]
    for key, count in (("images", settings["images"]), ("queue", settings["queue"])):
        if count > len(train):
            raise Refused(f"explain.{key}: {count} is larger than the {len(train)} train images; allowed: up to {len(train)}")

    def batches(seed, count):
        """The first `count` batches of the run's epoch 1, and of it again as often as it takes."""
        order = train[np.random.default_rng([seed, 1]).permutation(len(train))]
        rows = np.resize(order, (count, settings["images"]))
        return [(torch.from_numpy(np.array(pixels[ids])), torch.from_numpy(ids)) for ids in np.sort(rows, axis=1)]

    write_json(numbers_json, numbers(settings["temperatures"], settings["momenta"], settings["steps_of_key"]))
    filling = -(-settings["queue"] // settings["images"])
    recipes = read_json(simclr_plan), read_json(moco_plan)
    traces = (trace_simclr(recipes[0], batches(recipes[0]["seed"], settings["step"]), pixels.shape[-1]),
              trace_moco(recipes[1], batches(recipes[1]["seed"], filling + settings["step"]), pixels.shape[-1], settings["queue"]))
    for path, trace in zip((simclr_trace, moco_trace), traces, strict=True):
        with replacing(path, "wb") as file:
            np.savez(file, **{name: value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value) for name, value in trace.items()})
    print(f"{numbers_json}: hand-worked numbers; {simclr_trace}, {moco_trace}: step {settings['step']}, "
          f"loss {traces[0]['loss']:.3f} of SimCLR and {traces[1]['loss']:.3f} of MoCo")


if __name__ == "__main__":
    run(main)
