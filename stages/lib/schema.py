"""What params.yaml may hold: each key, its type and its range. Each leaf type says in words what is allowed."""
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

LARGEST_SEED = 2**32 - 1


def leaf(accepts, allowed, convert=lambda value: value):
    """A type whose values satisfy `accepts`; anything else is refused with the words `allowed`."""
    def check(value):
        try:
            good = accepts(value)
        except (TypeError, ValueError):
            good = False
        if not good:
            raise PydanticCustomError("refused", "{allowed}", {"allowed": allowed})
        return convert(value)
    return Annotated[Any, BeforeValidator(check)]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(low, high):
    return leaf(lambda v: is_number(v) and low <= v <= high, f"a number from {low:g} to {high:g}", float)


def whole(low, high):
    return leaf(lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high, f"a whole number from {low} to {high}")


def span(low, high):
    return leaf(lambda v: isinstance(v, list) and len(v) == 2 and all(map(is_number, v)) and low <= v[0] <= v[1] <= high,
                f"[low, high], two numbers from {low:g} to {high:g} in rising order")


def one_of(*names):
    return leaf(lambda v: isinstance(v, (str, bool)) and v in names, "one of " + ", ".join(map(str, names)))


def names(allowed):
    return leaf(lambda v: isinstance(v, list) and v and all(name in allowed for name in v) and len(set(v)) == len(v),
                "a list of different names out of " + ", ".join(allowed))


def numbers(low, high):
    return leaf(lambda v: isinstance(v, list) and v and all(is_number(x) and low <= x <= high for x in v) and sorted(set(v)) == v,
                f"a list of different numbers from {low:g} to {high:g} in rising order")


Name = leaf(lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,80}", v) and v != "pixels",
            "a name of letters, digits, _ and - (not `pixels`)")
Word = leaf(lambda v: isinstance(v, str) and v.strip() == v and v, "a text that is not empty")
Raw = leaf(lambda v: isinstance(v, str) and re.fullmatch(r"data/raw(/[^/\\]+)+", v) and ".." not in v.split("/"), "a path under data/raw/")
Color = leaf(lambda v: isinstance(v, list) and len(v) == 3 and all(is_number(x) and 0 <= x <= 1 for x in v), "[red, green, blue], each from 0 to 1")
Share = leaf(lambda v: is_number(v) and (0 < v < 1 or (isinstance(v, int) and v >= 1)), "a count (1 or more) or a fraction between 0 and 1")
Whole = leaf(lambda v: isinstance(v, list) and v and all(isinstance(x, int) and not isinstance(x, bool) and x >= 1 for x in v) and sorted(set(v)) == v,
             "a list of different whole numbers from 1 in rising order")
Value = leaf(lambda v: is_number(v) or (isinstance(v, str) and v), "a number or a name")
Probability = number(0, 1)
Seed = whole(0, LARGEST_SEED)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Split(Strict):
    train: Share
    val: Share
    test: Share
    seed: Seed
    hold_out: list[Annotated[dict[Word, Value], Field(min_length=1)]]


class Drawing(Strict):
    seed: Seed
    size: whole(8, 512)
    colors: Annotated[dict[Name, Color], Field(min_length=1)]
    brightness: span(0, 1)
    background: span(0, 1)
    noise: number(0, 1)


class ShapesDrawing(Drawing):
    per_kind: whole(1, 10**7)
    shapes: names(["circle", "square", "triangle", "diamond", "cross", "ring"])
    hue: span(-0.5, 0.5) = None
    textures: names(["plain", "stripes", "checks"]) = None
    watermark_correlation: Probability = None
    watermark_free: Probability = None
    position: span(-256, 256)
    scale: span(0.5, 256)


class Entry(Strict):
    raw: Raw
    main_factor: Word
    second_factor: Word
    split: Split


class Shapes(Entry):
    source: Literal["shapes"]
    images: ShapesDrawing

    @staticmethod
    def total(images):
        """The number of images that `images` describes, None if only the source can tell."""
        return len(images["shapes"]) * len(images["colors"]) * images["per_kind"]


class Digits(Entry):
    source: Literal["digits"]
    images: Drawing

    @staticmethod
    def total(images):
        return 1797


SOURCES = {"shapes": Shapes, "digits": Digits}


class Crop(Strict):
    scale: span(0.01, 1)
    ratio: span(0.1, 10)


class Jitter(Strict):
    probability: Probability
    brightness: number(0, 1) = None
    contrast: number(0, 1) = None
    saturation: number(0, 1) = None
    hue: number(0, 0.5) = None


class Blur(Strict):
    probability: Probability
    sigma: span(0.01, 100)


class Corner(Strict):
    probability: Probability
    side: Probability


class Views(Strict):
    corner: Corner = None
    crop: Crop = None
    flip: Probability = None
    zoom: span(0.1, 10) = None
    shift: number(0, 256) = None
    jitter: Jitter = None
    grayscale: Probability = None
    swap: Probability = None
    blur: Blur = None
    noise: number(0, 1) = None


class Pixels(Strict):
    """Strength 0 of each is the identity."""
    swap: Probability = None
    grayscale: Probability = None
    flip: Probability = None
    watermark: Probability = None
    rotate: whole(0, 3) = None
    gamma: number(-5, 5) = None
    blur: number(0, 100) = None
    noise: number(0, 1) = None


class Intervention(Strict):
    factor: Word = None
    to: Value = None
    pixels: Pixels = None


class Transfer(Strict):
    run: Word
    beside: Word
    to: Name


class Relation(Strict):
    kind: one_of("instance", "factor")
    factor: Word = None


class Encoder(Strict):
    channels: leaf(lambda v: isinstance(v, list) and v and all(isinstance(x, int) and not isinstance(x, bool) and 1 <= x <= 4096 for x in v),
                   "a list of whole numbers from 1 to 4096, one a layer")
    norm: one_of("none", "group", "batch")
    h: whole(1, 65536)
    head: one_of("none", "linear", "mlp")
    hidden: whole(1, 65536)
    z: whole(1, 65536)


class Pretrain(Strict):
    epochs: whole(1, 10**6)
    batch_size: whole(2, 10**6)
    lr: number(1e-9, 100)
    warmup: number(0, 0.9)
    schedule: one_of("constant", "cosine")
    weight_decay: number(0, 1)


class Recipe(Strict):
    """What a run of any objective reads; what is its own stands in its subclass."""
    objective: Word
    dataset: Name
    device: one_of("cpu", "cuda")
    seed: Seed
    replicates: whole(1, 1000)
    watch: whole(2, 10**6)
    encoder: Encoder
    relation: Name


class Untrained(Recipe):
    pass


class Trained(Recipe):
    views: Views
    pretrain: Pretrain


class SimCLR(Trained):
    temperature: number(0.001, 10000)


RECIPES = {"untrained": Untrained, "simclr": SimCLR}


class Probe(Strict):
    k: whole(1, 10**6)
    C: numbers(1e-9, 1e9)
    max_iter: whole(1, 10**6)
    penalties: numbers(1e-9, 1e9)
    recall: Whole
    shots: Whole
    episodes: whole(2, 10**6)
    slices: list[Word]


class Geometry(Strict):
    k: whole(1, 10**6)
    temperatures: numbers(0.001, 10000)
    images: whole(2, 10**6)
    floor: number(0, 1)


class Extract(Strict):
    batch_size: whole(1, 10**6)
    views: Views
    transformed: whole(1, 10**7)


class Finetune(Strict):
    labels: whole(1, 10**7)
    steps: whole(1, 10**7)
    batch_size: whole(1, 10**6)
    lr: numbers(1e-9, 100)


class Judge(Strict):
    confidence: number(0.5, 0.9999)
    kept: number(0, 10)
    erased: number(0, 10)
    gained: number(0, 10)
    room: number(0, 1)
    collapse_rank: number(1, 10**6)
    collapse_spread: number(0, 1)
    collapse_share: number(0, 1)


class Readout(Strict):
    run: leaf(lambda v: isinstance(v, str) and v, "the name of a run, or pixels")
    space: one_of("pixels", "h", "z")
    factor: Word
    probe: one_of("knn", "linear", "ridge", "finetune", "transformation")


class Claim(Strict):
    text: Word
    left: Readout
    right: Annotated[Annotated[Readout, Tag("readout")]
                     | Annotated[leaf(lambda v: v == "chance" or (is_number(v) and 0 <= v <= 1), "a readout, a number from 0 to 1, or chance"), Tag("number")],
                     Discriminator(lambda v: "readout" if isinstance(v, dict) else "number")]
    margin: number(0, 1)
    allow: list[Word]
    # `is` is a word of Python
    word: Annotated[one_of("above", "below", "near", "not above", "not below"), Field(alias="is")]


class Preview(Strict):
    images: whole(1, 100)
    seed: Seed


class Plot(Strict):
    dpi: whole(50, 600)


class Params(Strict):
    temperature: number(0.001, 10000)
    device: one_of("cpu", "cuda")
    dataset: Name
    seed: Seed
    replicates: whole(1, 1000)
    datasets: Annotated[dict[Name, Annotated[Shapes | Digits, Field(discriminator="source")]], Field(min_length=1)]
    views: Annotated[dict[Name, Views], Field(min_length=1)]
    relations: Annotated[dict[Name, Relation], Field(min_length=1)]
    encoder: Encoder
    watch: whole(2, 10**6)
    pretrain: Pretrain
    extract: Extract
    interventions: dict[Name, Intervention]
    transformations: dict[Name, Annotated[list[Pixels], Field(min_length=1)]]
    runs: Annotated[dict[Name, dict[str, Any]], Field(min_length=1)]
    probe: Probe
    geometry: Geometry
    finetune: Finetune
    transfers: dict[Name, Transfer]
    judge: Judge
    claims: dict[Name, Claim]
    preview: Preview
    plot: Plot


KEYS = {field.alias or name for model in [
    Params, *SOURCES.values(), *RECIPES.values(), Split, Drawing, ShapesDrawing, Crop, Jitter, Blur, Corner, Views, Pixels, Intervention, Relation, Encoder,
    Pretrain, Extract, Probe, Geometry, Finetune, Transfer, Judge, Readout, Claim, Preview, Plot] for name, field in model.model_fields.items()}
