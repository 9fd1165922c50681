"""What params.yaml may hold: each key, its type and its range."""
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from stages.lib.leaves import Color, Flag, Name, Probability, Raw, Seed, Share, Value, Whole, Word, is_number, leaf, names, number, numbers, one_of, span, whole


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Split(Strict):
    train: Share
    val: Share
    test: Share
    seed: Seed
    group_by: Word = None
    hold_out: list[Annotated[dict[Word, Value], Field(min_length=1)]]


class GivenSplit(Strict):
    column: Word
    val: number(0, 0.9)
    seed: Seed
    group_by: Word = None
    hold_out: leaf(lambda v: v == [], "[], since a column tells the split")


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
    tint: span(-1, 1) = None
    mix: span(0, 1) = None
    textures: names(["plain", "stripes", "checks"]) = None
    watermark_correlation: Probability = None
    watermark_free: Probability = None
    position: span(-256, 256)
    scale: span(0.5, 256)


class Entry(Strict):
    raw: Raw
    main_factor: Word
    second_factor: Word
    split: Annotated[Annotated[Split, Tag("drawn")] | Annotated[GivenSplit, Tag("given")],
                     Discriminator(lambda v: "given" if isinstance(v, dict) and "column" in v else "drawn")]


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


class Near(Strict):
    bits: whole(0, 64)
    levels: number(0, 255)


class Pictures(Strict):
    size: whole(8, 512)
    background: Color
    max_pixels: whole(1, 89_478_485)  # Pillow's own guard begins there
    on_bad: one_of("stop", "skip")
    columns: dict[Word, one_of("class", "number", "none")]
    near: Annotated[Annotated[Near, Tag("near")] | Annotated[one_of("none"), Tag("none")],
                    Discriminator(lambda v: "near" if isinstance(v, dict) else "none")]


class Folder(Entry):
    source: Literal["folder"]
    images: Pictures

    @staticmethod
    def total(images):
        return None


class Published(Strict):
    name: one_of("CIFAR10", "CIFAR100", "STL10", "SVHN", "FashionMNIST")
    size: whole(8, 512)


class Torchvision(Entry):
    source: Literal["torchvision"]
    images: Published

    @staticmethod
    def total(images):
        return {"CIFAR10": 60000, "CIFAR100": 60000, "STL10": 13000, "SVHN": 99289, "FashionMNIST": 70000}[images["name"]]


SOURCES = {"shapes": Shapes, "digits": Digits, "folder": Folder, "torchvision": Torchvision}


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


class Mined(Strict):
    kind: one_of("clusters", "neighbors")
    run: Word
    clusters: whole(2, 10**6) = None
    restarts: whole(1, 1000) = None
    k: whole(1, 10**6) = None


MINED = {"clusters": {"clusters", "restarts"}, "neighbors": {"k"}}  # what each kind reads besides its run


class Encoder(Strict):
    """`layers` and `h` are those of `small`: the recipe of a run with another encoder does not hold them."""
    name: one_of("small", "resnet18", "resnet50")
    layers: leaf(lambda v: isinstance(v, list) and v and all(isinstance(x, list) and len(x) == 2 and all(type(y) is int for y in x)
                                                            and 1 <= x[0] <= 4096 and 1 <= x[1] <= 4 for x in v),
                 "a list of [channels, stride], one a layer: whole numbers from 1 to 4096 and from 1 to 4") = None
    norm: one_of("none", "group", "batch")
    h: whole(1, 65536) = None
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
    block: whole(2, 10**9)
    processes: whole(1, 10**4)


class Resume(Strict):
    every: whole(1, 10**6)
    limit_mb: whole(1, 10**7)


class Contrasting(Pretrain):
    normalize: Flag


class Negatives(Strict):
    debias: number(0, 0.99)
    hardness: number(0, 100)
    filter_above: number(-1, 1)
    learn_temperature: leaf(lambda v: v is False or (isinstance(v, list) and len(v) == 2 and all(map(is_number, v)) and 0.001 <= v[0] < v[1] <= 10000),
                            "false, or [low, high], two numbers from 0.001 to 10000 in rising order")


class Queue(Strict):
    queue: whole(1, 10**7)
    key_momentum: number(0, 1)


class Terms(Strict):
    invariance: number(0, 10**6)
    variance: number(0, 10**6)
    covariance: number(0, 10**6)


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
    resume: Resume


class SupCon(Trained):
    pretrain: Contrasting
    temperature: number(0.001, 10000)


class SimCLR(SupCon):
    negatives: Negatives


class MoCo(SimCLR):
    moco: Queue


class VICReg(Trained):
    vicreg: Terms


RECIPES = {"untrained": Untrained, "simclr": SimCLR, "moco": MoCo, "vicreg": VICReg, "supcon": SupCon}


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
    factor: Word = None
    probe: one_of("knn", "linear", "ridge", "finetune", "transformation", "spread")


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


class Map(Strict):
    images: whole(4, 2000)
    methods: leaf(lambda v: isinstance(v, list) and v and set(v) <= {"pca", "tsne", "umap"} and len(set(v)) == len(v), "a list of some of pca, tsne, umap")
    perplexity: number(1, 1000)
    neighbors: whole(1, 20)


class Page(Strict):
    queries: whole(1, 24)


class Explain(Strict):
    simclr: Word
    moco: Word
    images: whole(2, 16)
    queue: whole(1, 64)
    step: whole(1, 10**5)
    temperatures: numbers(0.001, 10000)
    momenta: numbers(0, 1)
    steps_of_key: whole(1, 1000)


class Plot(Strict):
    dpi: whole(50, 600)


class Params(Strict):
    temperature: number(0.001, 10000)
    device: one_of("cpu", "cuda")
    dataset: Name
    seed: Seed
    replicates: whole(1, 1000)
    datasets: Annotated[dict[Name, Annotated[Shapes | Digits | Folder | Torchvision, Field(discriminator="source")]], Field(min_length=1)]
    views: Annotated[dict[Name, Views], Field(min_length=1)]
    relations: Annotated[dict[Name, Relation], Field(min_length=1)]
    mined: dict[Name, Mined]
    encoder: Encoder
    watch: whole(2, 10**6)
    pretrain: Contrasting
    resume: Resume
    negatives: Negatives
    moco: Queue
    vicreg: Terms
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
    map: Map
    page: Page
    plot: Plot
    explain: Explain
    illustrate: Plot


KEYS = {field.alias or name for model in list(globals().values()) if isinstance(model, type) and issubclass(model, Strict)
        for name, field in model.model_fields.items()}
