"""The sections of a config: every key with its unit or legal values.

The keys of an objective stand in its file.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from research import objectives
from research.errors import unknown
from research.fields import RATES, choice, fraction, free_text, number
from research.metrics import signs
from research.parts import Folder, default_of, part, section_fields

SPLITS = ("train", "valid", "test")
FORMATS = ("auto", "txt", "jsonl", "tsv", "csv", "parquet", "conll", "conllu", "squad")

dropout_rate = partial(number, least=-1, below=1)
dim = partial(number, most=2**20)  # the size of a dim of an array
depth = partial(number, most=2**10)  # number of layers


@dataclass
class Run:
    """The keys outside all sections."""

    seed: int = number(0, least=0, below=2**31)  # of parameters, order, noise, dropout


@dataclass
class Data:
    """The text, its vocabulary, and the order in which it is read."""

    corpus: str = free_text("embedded")  # embedded | docstrings | files, a folder or a
    # glob of .txt, .jsonl, .tsv (parallel text), each also as .gz | tfds:NAME, or
    # tfds:NAME/split=SPLIT; documents belong to splits by their hash
    train: str = free_text("")  # files of this split alone, or tfds:NAME, whose own
    valid: str = free_text("")  # split it is: in place of data.corpus and its hash
    test: str = free_text("")  # split
    format: str = choice("auto", FORMATS)  # of files; auto: by their suffix
    fields: str = free_text("")  # columns, keys or suffixes (of a.en and a.de) that are
    # an example's parts, as in en,de; without a header numbers from 0, -1 for the last
    label: str = free_text("")  # column or key of the label; "": that of the format,
    # if it has one. Files of data.test may lack it
    mixture: dict = dataclasses.field(default_factory=dict, metadata=RATES)  # corpus ->
    # rate; when not empty, replaces corpus
    task: str = free_text("")  # replaces corpus: a seqio task or mixture (its module
    # before a colon if it must be imported), or a folder of batches of launch.prepare
    reader: str = choice("native", ("native", "seqio"))  # seqio: through its registry;
    # both give the same bytes
    length: int = dim(128, least=1)  # tokens of the network's input
    length_buckets: list = dataclasses.field(default_factory=list)  # of a task: lengths
    # below data.length, as in [32, 64]; texts of like lengths share a batch, which has
    # the shortest that holds them, so that less is padded (tokens are counted as if
    # all had data.length). []: all have data.length
    stride: int = number(0, least=0)  # tokens from one example's start to the next; 0:
    # the number that an example reads
    train_split: str = choice("train", SPLITS)
    eval_split: str = choice("valid", SPLITS)
    held_out: float = number(0.02, least=0, below=0.5)  # fraction of documents in
    # valid, and the same again in test, by hash
    vocabulary: str = free_text("unigram")  # or bpe, wordpiece, bytebpe, a model file,
    # a run's workdir
    vocabulary_size: int = dim(8192, least=1)  # pieces, including special ones
    vocabulary_sample: int = number(10**9, least=1, most=2**40)  # bytes of text that a
    # vocabulary is trained on, at most: the lines with the smallest hashes
    whitespace: str = choice("auto", ("auto", "keep", "collapse"))  # collapse: a run
    # of it becomes one space, also between lines; only bytebpe can keep it (auto)
    sentinels: int = dim(100, least=0)  # special pieces that stand for hidden spans
    packing: str = choice("none", ("none", "best_fit"))  # of documents into rows
    separator: str = choice("eos", ("eos", "none"))  # joins documents of the stream
    alpha: float = fraction(0.0)  # 0: mixture rates as given; else a corpus has rate
    # (its tokens) ** alpha, also among the lines that train the vocabulary
    dupe_factor: int = number(0, least=0)  # epoch e is corrupted as epoch
    # e % dupe_factor (static masking); 0: every epoch anew
    lexicon: str = free_text("")  # a file of words, phrases, ...: entry<TAB>type a line
    cache_dir: str = free_text("")  # vocabularies, ...; "": ~/.cache/palimpsest


@dataclass
class Model:
    """The network; see research/networks/modules/options.py."""

    layers: int = depth(4, least=1)  # blocks (of each of encoder and decoder)
    decoder_layers: int = depth(0, least=0)  # blocks of a decoder; 0: layers
    width: int = dim(256, least=1)  # of the residual stream
    heads: int = dim(4, least=1)  # divides width, if head_width is 0
    head_width: int = dim(0, least=0)  # of one head; 0: width / heads
    num_kv_heads: int = dim(0, least=0)  # heads of keys and values, each of which
    # serves heads / num_kv_heads queries (Ainslie et al. 2023); 0: heads
    feedforward: int = dim(1024, least=1)  # width inside the feed-forward layer
    embedding_width: int = dim(0, least=0)  # of the token table; 0: width
    scale_embeddings: bool = False  # token embeddings are multiplied by sqrt(width)
    shared_embeddings: bool = True  # encoder and decoder have one token table
    shared_stacks: bool = False  # encoder and decoder have the same parameters, but for
    # the decoder's cross-attention
    max_length: int = dim(512, least=1)  # rows of a table of learned positions
    token_types: int = dim(0, least=0)  # sentence A or B, language, ...; 0: none
    token_type_encoding: str = choice("absolute", ("absolute", "relative"))  # absolute:
    # an embedding; relative: attention knows if two positions have the same type
    norm: str = choice("layernorm", ("layernorm", "rmsnorm"))
    norm_placement: str = choice("pre", ("pre", "post"))
    norm_epsilon: float = number(1e-6, above=0)
    embedding_norm: str = choice("auto", ("auto", "always", "never"))  # auto: where
    # norm_placement is post
    position: str = choice(
        "learned", ("learned", "sinusoidal", "rotary", "t5", "relative", "none")
    )  # relative: Transformer-XL's, which mems need
    rope_theta: float = number(10_000.0, above=0)  # base of the wavelengths of rotary
    shared_relative_biases: bool = False  # all layers have the same biases u and v of
    # relative positions and token types
    cross_output: str = choice("shared", ("shared", "token_type"))  # the last layer of
    # attention to an encoder; token_type: one for each token type of the decoder (MASS)
    activation: str = choice("gelu", ("gelu", "gelu_tanh", "relu", "geglu", "swiglu"))
    bias: bool = True  # biases in dense layers and norms
    tie_embeddings: bool = True  # the output table is the token table
    cutoffs: list = dataclasses.field(default_factory=list)  # ids at which clusters of
    # an adaptive softmax and input begin, ascending; [20000]: one from there on; []:
    # none. Ids follow frequency
    cutoff_divisor: int = number(1, least=1)  # widths of the clusters' tables: width,
    # width / divisor, width / divisor ** 2, ...
    output_head: str = choice("auto", ("auto", "table", "bias", "transform"))  # what is
    # before the softmax: the output table alone; with a bias; with BERT's transform and
    # a bias; auto: the objective's choice (transform where masked tokens are predicted)
    output_rows: str = choice("vocabulary", ("vocabulary", "table"))  # of the softmax;
    # table: also those that pad the table to a multiple of 128 (T5)
    shared_layers: bool = False  # one block's parameters serve all layers
    init: str = choice("normal", ("normal", "truncated", "gpt2", "t5", "xlm"))
    # normal: std 0.02; truncated: at twice that; gpt2: residual projections scaled by
    # depth; t5, xlm: by fan-in
    dropout: float = number(0.0, least=0, below=1)  # at all places below that are -1
    embedding_dropout: float = dropout_rate(-1.0)  # of embeddings
    position_dropout: float = dropout_rate(0.0)  # of relative positions
    attention_dropout: float = dropout_rate(-1.0)  # of attention weights
    feedforward_dropout: float = dropout_rate(0.0)  # inside a feed-forward layer
    residual_dropout: float = dropout_rate(-1.0)  # of what a block adds to its input
    output_dropout: float = dropout_rate(0.0)  # of the output of a stack
    head_dropout: float = dropout_rate(-1.0)  # before the last layer of a classifier
    dtype: str = choice("float32", ("float32", "bfloat16"))  # of activations;
    # parameters are float32
    attention: str = choice("dense", ("auto", "dense", "interval", "library"))  # dense:
    # all logits at once; interval: a kernel for TPUs, and one for Hopper without
    # relative terms; library: cuDNN's, without these, T5's bias and attention_dropout;
    # auto: the kernel of TPUs, cuDNN's on GPUs, or dense. See Options
    remat: str = choice("none", ("none", "dots", "full"))  # what a block recomputes
    scan_unroll: int = depth(4, least=1)  # layers a scan step; layers or more: no scan


@dataclass
class Optimizer:
    """The optax optimizer; see research/run/optimizer.py."""

    name: str = choice("adamw", ("adamw", "adam", "adafactor", "lamb", "sgd"))
    learning_rate: float = number(1e-3, least=0)  # at its peak
    schedule: str = choice(
        "linear", ("constant", "linear", "polynomial", "cosine", "rsqrt")
    )
    power: float = number(1.0, above=0)  # of a polynomial schedule
    warmup_steps: int = number(100, least=0)  # fewer than train.steps
    warmup: str = choice("linear", ("linear", "slanted", "factor", "constant"))
    # linear: up to the peak; slanted: likewise, from final_fraction of it (ULMFiT);
    # factor: linear, times the decay (ELECTRA); constant: at the peak (T5)
    decay_from: str = choice("warmup", ("warmup", "start"))  # where the decay counts
    # from: the end of the warm-up, or step 0 (BERT)
    decay_fraction: float = number(1.0, above=0, most=1)  # of the steps after the
    # origin of the decay: the last ones, in which the rate decays from its peak, at
    # which it stays before (warm-up, stable, decay); 1: all
    final_fraction: float = fraction(0.0)  # of the peak, at which the decay ends
    beta1: float = number(0.9, least=0, below=1)
    beta2: float = number(0.98, least=0, below=1)
    epsilon: float = number(1e-6, least=0)
    epsilon_place: str = choice("after", ("after", "before"))  # where epsilon is added:
    # after the bias correction of the second moment, or before it (fairseq, GPT, XLM)
    bias_correction: bool = True  # of Adam's and LAMB's moments; False: as in BERT and
    # the code derived from it (ALBERT, ELECTRA, XLNet)
    weight_decay: float = number(0.01, least=0)  # decoupled
    decay_params: str = choice("matrices", ("matrices", "query_biases", "all"))  # what
    # decays: no biases and norms; also the queries' biases (XLNet); all (fairseq)
    layer_decay: float = number(1.0, above=0, most=1)  # factor of the rate from one
    # layer to the layer below it; 1: none
    unfreeze_every: int = number(0, least=0)  # steps after which the next layer begins
    # to learn: heads at once, then the last block, ..., embeddings (gradual
    # unfreezing, ULMFiT); 0: all at once
    clip_norm: float = number(1.0, least=0)  # global norm of the gradient; 0: none
    frozen: str = free_text("")  # parts of the parameters that do not change and take
    # no gradient, as in token,place,stack/blocks/attention
    ema_decay: float = number(0.0, least=0, below=1)  # of an exponential moving average
    # of the parameters, a step, as in 0.999: it is evaluated, and is what opens a run;
    # 0: none


@dataclass
class Mesh:
    """Sizes of the mesh axes; their product is the number of devices."""

    data: int = number(-1, least=-1)  # -1: the rest
    fsdp: int = number(1, least=-1)
    tensor: int = number(1, least=-1)


@dataclass
class Train:
    """The loop."""

    steps: int = number(1000, least=1)
    phases: list = dataclasses.field(default_factory=list)  # [end, changes], ...: up to
    # that fraction of the steps these keys have other values; [0.9, {"data.length":
    # 128}]; lengths, batches, micro-batches and rates of dropout may change
    batch: int = dim(32, least=1)  # examples a step, over all devices
    accumulate: int = dim(1, least=1)  # micro-batches a step
    init_from: str = free_text("")  # workdir or checkpoint whose parameters to start
    # from; or hf:DIR, a model in Hugging Face's layout, which also sets model.* and
    # data.vocabulary
    init_scope: str = free_text("")  # the part of those to start from; "": all
    log_every: int = number(10, least=1)  # steps
    eval_every: int = number(200, least=0)  # steps; 0: only at the end
    checkpoint_every: int = number(200, least=0)  # steps; 0: only at the end
    keep_checkpoints: int = number(2, least=1)  # newest checkpoints that stay
    best_metric: str = free_text("")  # of evaluations, see research/metrics: the
    # checkpoint of the best one stays, too; it is tested at the end, and is what opens
    # the run. "": the newest is
    early_stopping_patience: int = number(0, least=0)  # evaluations in a row that are
    # not better than the best one, after which training stops; 0: it never does

    def __post_init__(self):
        if self.best_metric and self.best_metric not in signs():
            raise unknown("train.best_metric", self.best_metric, signs())
        if self.early_stopping_patience and not (self.best_metric and self.eval_every):
            raise ValueError(
                "train.early_stopping_patience needs train.best_metric and "
                "train.eval_every"
            )


@dataclass
class Objective:
    """What is hidden and scored; a module of research/objectives."""

    name: str = part("mlm", objectives.FOLDER)


SECTIONS = {
    "": Run,
    "data": Data,
    "objective": Objective,
    "model": Model,
    "optimizer": Optimizer,
    "mesh": Mesh,
    "train": Train,
}
"""Name -> its own keys. A part that one of these chooses has more."""

OPEN_SECTIONS = ("data.mixture", "objective.parts")
"""Sections whose keys are the user's own; JSON replaces one as a whole."""


def section_defaults(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a section with their defaults, and the values that are given.

    Keys of `values` that the section does not have are left out.

    Raises:
      UserError: the values choose a part that does not exist.
    """
    found = {}
    for key, field in section_fields(SECTIONS[name], values, dotted(name)).items():
        value = values.get(key, default_of(field))
        found[key] = {} if is_open(name, key) and value == () else value
    return found


def dotted(name: str) -> str:
    """The prefix of the keys of a section, as in "model."."""
    return f"{name}." if name else ""


def is_open(section: str, key: str) -> bool:
    return f"{section}.{key}" in OPEN_SECTIONS


def choices() -> Iterator[tuple[str, str, Folder]]:
    """(section, key, folder) of each key that chooses a part."""
    for name, section in SECTIONS.items():
        for field in dataclasses.fields(section):
            if folder := field.metadata.get("folder"):
                yield name, field.name, folder


def with_part(
    name: str, values: Mapping[str, Any], key: str, part_name: str
) -> dict[str, Any]:
    """The values of a section that chooses another part.

    The keys that both parts have keep their values, if they mean the same.

    Raises:
      UserError: there is no such part.
    """
    if values[key] == part_name:
        return dict(values)
    folder = SECTIONS[name].__dataclass_fields__[key].metadata["folder"]
    own = {field.name for field in dataclasses.fields(SECTIONS[name])}
    kept = values if folder.share_keys else {k: values[k] for k in own}
    return section_defaults(name, {**kept, key: part_name})
