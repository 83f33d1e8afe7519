"""The sections of a config: every key with its unit or legal values.

The keys of an objective, a network, an optimizer or a schedule stand in its file.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from research import objectives
from research.contract.errors import UserError, unknown
from research.contract.fields import RATES, choice, fraction, free_text, number
from research.contract.parts import Folder, default_of, part, section_fields
from research.data.read.corpus import SPLITS, split_fractions
from research.data.read.formats import FORMATS, check_encoding
from research.data.tokenize.normalization import NORMALIZERS
from research.metrics import signs
from research.optimize import pruning
from research.optimize.rules import OPTIMIZERS
from research.optimize.schedules import SCHEDULES

NETWORKS = Folder("research.networks", "Network")  # whose package imports Flax

dim = partial(number, most=2**20)  # the size of a dim of an array


@dataclass
class Run:
    """The keys outside all sections."""

    seed: int = number(0, least=0, below=2**31)  # of parameters, order, noise, dropout


@dataclass
class Data:
    """The text, its vocabulary, and the order in which it is read."""

    corpus: str = free_text("embedded")  # embedded | docstrings | files, a folder or a
    # glob of .txt, .jsonl, .tsv (parallel text), each also as .gz and .zst |
    # tfds:NAME, or tfds:NAME/split=SPLIT; documents belong to splits by their hash
    train: str = free_text("")  # files of this split alone, or tfds:NAME, whose own
    valid: str = free_text("")  # split it is: in place of data.corpus and its hash
    test: str = free_text("")  # split
    split: str = free_text("")  # fractions of data.train in train, valid and test, as
    # in 0.8,0.1,0.1: by the hash of a text, so that equal texts are in one part. A
    # split with files of its own has 0. "": data.train is all for training
    encoding: str = free_text("utf-8")  # of text files; any of Python's, as in latin-1
    format: str = part(
        "auto", FORMATS
    )  # of files, a module of research/data/read/formats;
    # auto: by their suffix
    fields: str = free_text("")  # columns, keys or suffixes (of a.en and a.de) that are
    # an example's parts, as in en,de; without a header numbers from 0, -1 for the last
    label: str = free_text("")  # column or key of the label; "": that of the format,
    # if it has one. Files of data.test may lack it. Of files without columns (lines,
    # txt): file, suffix or folder, a part of their paths; of lines also prefix, the
    # text before the first space, or coarse_prefix, that before its first colon
    mixture: dict = dataclasses.field(default_factory=dict, metadata=RATES)  # corpus ->
    # rate; when not empty, replaces corpus
    mixing: str = choice("rows", ("rows", "batches"))  # what is of one corpus of the
    # mixture; batches: all rows of a batch are (XLM, MASS: one language a batch)
    task: str = free_text("")  # replaces corpus: a seqio task or mixture (its module
    # before a colon if it must be imported), or a folder of saved batches
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
    vocabulary: str = free_text("unigram")  # or bpe, wordpiece, bytebpe, words (text
    # between white space), a model file, a run's workdir
    vocabulary_size: int = dim(8192, least=1)  # pieces, including special ones
    vocabulary_sample: int = number(10**9, least=1, most=2**40)  # bytes of text that a
    # vocabulary is trained on, at most: the lines with the smallest hashes
    whitespace: str = choice("auto", ("auto", "keep", "collapse"))  # collapse: a run
    # of it becomes one space, also between lines; only bytebpe can keep it (auto)
    normalizer: str = choice("none", NORMALIZERS)  # of text before a vocabulary that is
    # trained here cuts it: none; Unicode's NFKC; lower case; without accents; both
    # (uncased)
    sentinels: int = dim(100, least=0)  # special pieces that stand for hidden spans
    packing: str = choice("none", ("none", "best_fit"))  # of documents into rows
    separator: str = choice("eos", ("eos", "lines", "none"))  # joins documents of the
    # stream; lines: eos ends each line, and so each document
    alpha: float = fraction(0.0)  # 0: mixture rates as given; else a corpus has rate
    # (its tokens) ** alpha, also among the lines that train the vocabulary
    dupe_factor: int = number(0, least=0)  # epoch e is corrupted as epoch
    # e % dupe_factor (static masking); 0: every epoch anew
    pairs: str = choice("once", ("once", "each_copy"))  # when sentences are packed into
    # pairs or halves, with random cuts, lengths and second segments; each_copy: anew
    # for each of dupe_factor copies (BERT), or for each epoch if that is 0
    lexicon: str = free_text("")  # a file of words, phrases, ...: entry<TAB>type a line
    cache_dir: str = free_text("")  # vocabularies, ...; "": ~/.cache/palimpsest

    def __post_init__(self):
        check_encoding(self.encoding)
        if not self.split:
            return
        fractions = dict(zip(SPLITS, split_fractions(self.split), strict=True))
        if not self.train:
            raise ValueError(
                "data.split divides the files of data.train, which names none; "
                "data.held_out divides data.corpus"
            )
        for split in (self.train_split, self.eval_split):
            if not fractions[split] and not getattr(self, split):
                raise ValueError(
                    f"data.split={self.split} has nothing in {split}, and data.{split} "
                    "names no files"
                )


@dataclass
class Model:
    """The network; a module of research/networks."""

    network: str = part("transformer", NETWORKS)


@dataclass
class Optimizer:
    """What all optimizers share; each has keys of its own, as each schedule has."""

    name: str = part("adamw", OPTIMIZERS)
    learning_rate: float = number(1e-3, least=0)  # at its peak
    schedule: str = part("linear", SCHEDULES)  # how the rate decays
    warmup_steps: int = number(100, least=0)  # fewer than train.steps
    warmup: str = choice(
        "linear", ("linear", "from_zero", "slanted", "factor", "constant")
    )  # linear: up to the peak; from_zero: also from 0 with decay_from=warmup
    # (transformers); slanted: from final_fraction of the peak (ULMFiT); factor: linear,
    # times the decay (ELECTRA); constant: at the peak (T5)
    decay_from: str = choice("warmup", ("warmup", "start"))  # where the decay counts
    # from: the end of the warm-up, or step 0 (BERT)
    layer_decay: float = number(1.0, above=0, most=1)  # factor of the rate from one
    # layer to the layer below it; 1: none. Heads have the full rate, the last block
    # layer_decay^2 (ELECTRA), and a token table, also one that is the readout, least
    layer_rates: list = dataclasses.field(default_factory=list)  # factors of the rates
    # of embeddings, of each layer from the lowest on, and of heads, as in [0.5, 0.1667,
    # 0.3333, 1, 0.5] (ULMFiT's language model); []: those of layer_decay
    unfreeze_every: int = number(0, least=0)  # steps after which the next layer begins
    # to learn: heads at once, then the last block, ..., embeddings (gradual
    # unfreezing, ULMFiT); 0: all at once
    clip_norm: float = number(1.0, least=0)  # global norm of the gradient; 0: none
    max_norm: float = number(0.0, least=0)  # of the weights of each output of a head,
    # which are scaled down to it after each step (Kim 2014, section 2.1); 0: any
    frozen: str = free_text("")  # paths of parameters that do not change and take no
    # gradient, as in token,embeddings,stack/blocks/attention; network: all but heads
    prune: str = choice("none", pruning.METHODS)  # which weights of the kernels of
    # blocks, but for frozen ones, become 0: small ones for good, those that training
    # moves towards 0, or those whose gate it closes (l0, which reads none of the next
    # four keys)
    prune_scope: str = choice("matrix", pruning.SCOPES)  # of what prune_kept is left:
    # of each matrix, or of all together
    prune_kept: float = number(0.15, above=0, most=1)  # fraction of these weights that
    # is left at the end
    prune_begin: float = fraction(0.1)  # of the steps, after which pruning begins
    prune_end: float = fraction(0.8)  # of the steps, after which prune_kept is left
    prune_score_rate: float = number(1e-2, above=0)  # peak learning rate of scores and
    # gates, on the schedule of the others (of l0 0.1 in the released code)
    prune_threshold: float = number(0.1, above=0, below=1)  # of soft_movement, which
    # does not read prune_kept and prune_scope: of the sigmoids of scores, at the end
    prune_penalty: float = number(400.0, least=0)  # of it, too: the factor of their
    # mean in the loss, at the end; of l0 that of the mean probability that a gate is
    # not 0, in all steps (125 in the released code); more of it leaves less
    ema_decay: float = number(0.0, least=0, below=1)  # of an exponential moving average
    # of the parameters, a step, as in 0.999: it is evaluated, and is what opens a run;
    # 0: none
    average_from: float = fraction(1.0)  # of the steps: parameters of all steps from
    # there on have the same weight in an average, which is evaluated and opens a run
    # (ASGD, Polyak and Juditsky 1992); 1: none

    def __post_init__(self):
        if not all(type(r) in (int, float) and r >= 0 for r in self.layer_rates):
            raise ValueError(
                "optimizer.layer_rates must have numbers of at least 0, as in [0.5, 1, "
                f"1]; got {[*self.layer_rates]!r}"
            )
        if self.layer_rates and self.layer_decay < 1:
            raise ValueError(
                "optimizer.layer_rates and optimizer.layer_decay both scale the rates "
                "of layers; set layer_rates to [] or layer_decay to 1"
            )
        if self.ema_decay and self.average_from < 1:
            raise ValueError(
                "optimizer.ema_decay and optimizer.average_from are two averages; set "
                "ema_decay to 0 or average_from to 1"
            )
        if self.prune != "none" and (self.ema_decay or self.average_from < 1):
            raise ValueError(
                "optimizer.prune leaves weights of 0, and an average with earlier "
                "steps, which is evaluated and saved, has none; set ema_decay to 0 and "
                "average_from to 1"
            )
        if self.prune != "none" and self.unfreeze_every:
            raise ValueError(
                "optimizer.prune takes weights of all layers, and "
                "optimizer.unfreeze_every keeps most from learning at first; set one "
                "of them to its default, none or 0"
            )


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
    minutes: float = number(0.0, least=0)  # of steps, in all starts of the run, after
    # which it ends at the next step and is evaluated, before train.steps; schedules
    # and phases stay those of train.steps. 0: any
    batch: int = dim(32, least=1)  # examples a step, over all devices
    accumulate: int = dim(1, least=1)  # micro-batches a step
    init_from: str = free_text("")  # workdir or checkpoint whose parameters to start
    # from, or hf:DIR, a model in Hugging Face's layout; its network and its vocabulary
    # are those of the run, but for keys that are given
    init_scope: str = free_text("")  # path of the parameters to start from, such as
    # discriminator; "": all of them
    init_layers: list = dataclasses.field(default_factory=list)  # the layers of that
    # model, from 0, whose parameters this run's layers start from, as many as it has:
    # [0, 2, 4, 7, 9, 11] of 12 (DistilBERT); []: its own, which are as many
    log_every: int = number(10, least=1)  # steps
    eval_every: int = number(200, least=0)  # steps; 0: only at the end
    checkpoint_every: int = number(200, least=0)  # steps; 0: only at the end
    keep_checkpoints: int = number(2, least=1)  # newest checkpoints that stay
    checkpoint_words: list = dataclasses.field(default_factory=list)  # words seen after
    # which a checkpoint is saved, and stays, as in [1000000, 2000000]; a text that is
    # read twice counts twice (BabyLM's checkpoints). []: none
    max_words: int = number(0, least=0, most=2**50)  # that training may see; a run with
    # more steps is refused. 0: any
    best_metric: str = free_text("")  # of evaluations, see research/metrics: the
    # checkpoint of the best one stays, too; it is tested at the end, and is what opens
    # the run. "": the newest is
    early_stopping_patience: int = number(0, least=0)  # evaluations that training does
    # without an improvement before it stops; 0: it never does
    early_stopping_rule: str = choice("patience", ("patience", "nonmonotonic"))  # when
    # that is: so many evaluations in a row are not better than the best one; or one is
    # worse than the best of all but the last so many before it (NT-ASGD, Merity et al.
    # 2018, algorithm 1)
    wandb: str = free_text("")  # the project of Weights & Biases that gets what
    # TensorBoard gets (extra wandb); "": none
    profile_steps: list = dataclasses.field(default_factory=list)  # the first and the
    # last step of a trace by jax.profiler, as in [10, 12], which TensorBoard shows; it
    # slows these steps; []: none

    def __post_init__(self):
        if not all(type(n) is int and n >= 0 for n in self.init_layers):
            raise ValueError(
                "train.init_layers has whole numbers from 0, as in [0, 2], not "
                f"{[*self.init_layers]!r}"
            )
        words = [*self.checkpoint_words]
        whole = all(type(n) is int and n > 0 for n in words)
        if not whole or words != sorted({*words}):
            raise ValueError(
                "train.checkpoint_words must be ascending whole numbers above 0, as in "
                f"[1000000, 2000000], got {words!r}"
            )
        match self.profile_steps:
            case [] | ():
                pass
            case [int() as first, int() as last] if 1 <= first <= last <= self.steps:
                pass
            case _:
                raise ValueError(
                    "train.profile_steps is [first, last], two of the steps from 1 to "
                    f"train.steps, or [], not {self.profile_steps!r}"
                )
        if self.best_metric and self.best_metric not in signs():
            raise unknown("train.best_metric", self.best_metric, signs())
        if self.early_stopping_rule != "patience" and not self.early_stopping_patience:
            raise ValueError(
                "train.early_stopping_rule is not read with "
                "train.early_stopping_patience=0; set that (5 of the released AWD-LSTM)"
            )
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
"""Section -> the keys that it always has; the parts that it chooses add theirs."""

OPEN_SECTIONS = (
    "data.mixture",
    "objective.parts",
    "objective.base",
    "objective.teacher_model",
)
"""Sections whose keys the user names; JSON replaces one as a whole."""


def check_split(data: Any) -> None:
    """Checks that a split is not both a part of data.train and in files of its own.

    Args:
      data: the section of a config.

    Raises:
      UserError: one is.
    """
    fractions = split_fractions(data.split) if data.split else ()
    for split, rate in zip(SPLITS[1:], fractions[1:], strict=False):
        if rate and data[split]:
            raise UserError(
                f"data.{split} names files, and data.split={data.split} takes its "
                f"{split} split from data.train; give that split the fraction 0"
            )


def section_defaults(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A section's keys with the given values, and defaults for the others.

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

    Keys that both parts have keep their values, if they mean the same in both.

    Raises:
      UserError: there is no such part.
    """
    if values[key] == part_name:
        return dict(values)
    folder = SECTIONS[name].__dataclass_fields__[key].metadata["folder"]
    own = {field.name for field in dataclasses.fields(SECTIONS[name])}
    kept = values if folder.share_keys else {k: values[k] for k in own}
    return section_defaults(name, {**kept, key: part_name})
