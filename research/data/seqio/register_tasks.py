"""Registers a config's data with seqio, as a task or a mixture.

The task is named `corpus:objective`, or `corpus:objective:length` if data.length is not
the default; a mixture is `mix:objective`, and its tasks are `mix.corpus:objective`.
"""

import re
from typing import TYPE_CHECKING

import numpy as np
import seqio
import tensorflow as tf

from research.contract.batch import EVALUATION_STEP, ArraySpec
from research.contract.errors import UserError, unknown
from research.data.options import DataOptions
from research.data.order.mixture_schedule import MIXINGS, MixtureSchedule
from research.data.source.build import OpenedText
from research.data.source.text_source import EVALUATION_SEED, ROWS_PER_CALL, TextSource

if TYPE_CHECKING:
    from research.objectives import Objective

tf.config.set_visible_devices([], "GPU")  # else TensorFlow takes the GPU's memory

DEFAULT_LENGTH = 128
"""The default of data.length in research/config/base.py."""

OWN_TASKS: dict[str, list[str]] = {}
"""Names that `register` registered: task -> itself; mixture -> its tasks, in order."""


def register(options: DataOptions, objective: "Objective", opened: OpenedText) -> str:
    """Registers the task, or the mixture, of `opened`; returns its name.

    Its examples are those of `Pipeline`, byte for byte: with `shuffle`, in the shuffled
    order of each epoch, else in the order of the text; `seed` defaults to that of
    `opened`. They have full length: `sequence_length` may only repeat their shapes.
    Tasks with an encoder and a decoder also have `inputs` and `targets`. The feature
    converter to use is `seqio.PassThroughFeatureConverter`.

    Args:
      opened: the result of `open_text`.

    Raises:
      UserError: a task of the user has this name, a value of config.data is wrong, or
        the objective reads contiguous streams.
    """
    refuse_contiguous(options, objective)
    train = opened.train
    sources = {options.train_split: train, options.eval_split: opened.eval}
    specs = objective.batch_spec(options.length) | {"example": ArraySpec(())}
    if "encoder_token" in specs:
        specs |= {"inputs": specs["encoder_token"], "targets": specs["target"]}
    names = [re.sub(r"\W+", "_", name).strip("_") for name in train.rates]
    ending = f":{objective.name}"
    ending += f":{options.length}" if options.length != DEFAULT_LENGTH else ""
    if len(names) == 1:
        return _add_task(names[0] + ending, sources, 0, specs)
    if len(set(names)) < len(names):
        raise UserError(
            f"data.mixture: corpora must have different names: {', '.join(names)}"
        )
    tasks = [f"mix.{name}{ending}" for name in names]
    for corpus, task in enumerate(tasks):
        _add_task(task, sources, corpus, specs)
    mixture = "mix" + ending
    _claim_name(mixture, tasks)
    rates = zip(tasks, train.schedule.count.tolist(), strict=True)
    sample_fn = _scheduled_sampler(tasks, train.schedule)
    seqio.MixtureRegistry.add(mixture, list(rates), sample_fn=sample_fn)
    return mixture


def refuse_contiguous(options: DataOptions, objective: "Objective") -> None:
    """Raises UserError: the objective reads contiguous streams, or batches are mixed.

    Their order depends on the batch size, which the registry does not know.
    """
    if MIXINGS[options.mixing].depends_on_batch:
        raise UserError(
            f"data.mixing is {options.mixing}, which seqio tasks cannot give: they do "
            "not know the size of a batch; set data.mixing=rows or data.reader=native"
        )
    if objective.text_spec(options.length).contiguous:
        raise UserError(
            f"objective {objective.name} reads contiguous streams, which seqio "
            "tasks cannot give; set data.reader=native and data.task to nothing"
        )


def _add_task(
    name: str, sources: dict[str, TextSource], corpus: int, specs: dict
) -> str:
    """Registers the task of one corpus of the sources; returns its name."""
    vocab = next(iter(sources.values())).vocab
    vocabulary = seqio.PassThroughVocabulary(vocab.size)
    features = {
        key: seqio.Feature(
            vocabulary,
            add_eos=False,
            dtype=tf.as_dtype(spec.dtype),
            rank=len(spec.shape),
        )
        for key, spec in specs.items()
    }
    _claim_name(name, [name])
    seqio.TaskRegistry.add(
        name,
        source=EpochPositions(sources, corpus),
        preprocessors=[_row_maker(name, sources, corpus, specs)],
        output_features=features,
        shuffle_buffer_size=None,
    )
    return name


def _claim_name(name: str, tasks: list[str]) -> None:
    """Makes the name ours; an older task of ours is removed."""
    if is_registered(name) and name not in OWN_TASKS:
        raise UserError(f"{name}: another seqio task already has this name")
    seqio.TaskRegistry.remove(name)
    seqio.MixtureRegistry.remove(name)
    OWN_TASKS[name] = tasks


def is_registered(name: str) -> bool:
    """Whether seqio has a task or mixture of this name."""
    return name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names()


class EpochPositions(seqio.DataSource):
    """The positions of one epoch of one corpus, with what is needed to read them.

    seqio repeats a source without passing the number of the epoch, on which order and
    corruption depend. So the text is read after the repetition, by `_row_maker`, which
    counts the epochs.
    """

    supports_arbitrary_sharding = True

    def __init__(self, sources: dict[str, TextSource], corpus: int):
        sizes = {split: int(source.sizes[corpus]) for split, source in sources.items()}
        super().__init__(
            splits=tuple(sources),
            num_input_examples=sizes,
            caching_permitted=False,
            performs_internal_shuffling=True,
        )
        self._sources = sources

    def list_shards(self, split: str) -> list[str]:
        return [split]

    def get_dataset(
        self, split="train", shuffle=True, seed=None, shard_info=None, **unused
    ) -> tf.data.Dataset:
        """Elements of int64 scalars; a shard has every `num_shards`-th position."""
        size = self.num_input_examples(split)
        index, step = (
            (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)
        )
        if not shuffle:
            seed = EVALUATION_SEED
        elif seed is None:
            seed = self._sources[split].seed
        constants = {
            "size": len(range(index, size, step)),
            "split": self.splits.index(split),
            "shuffle": int(shuffle),
            "seed": seed,
        }
        constants = {key: tf.cast(value, tf.int64) for key, value in constants.items()}
        return tf.data.Dataset.range(index, size, step).map(
            lambda position: {"position": position, **constants}
        )


def _row_maker(name: str, sources: dict[str, TextSource], corpus: int, specs: dict):
    """The preprocessor that makes rows from positions, many in one call."""
    by_number = list(sources.values())

    def make_rows(number, position, size, split, shuffle, seed):
        source, corpora = by_number[split[0]], np.full_like(position, corpus)
        epoch = number // size
        shuffle, step = bool(shuffle[0]), EVALUATION_STEP
        if shuffle:
            # The registry repeats as many positions as the first copy has rows.
            counter = epoch * source.sizes[corpus] + position
            epoch, position = source.locate_in_corpus(corpus, counter)
            step = source.training_step(corpora, position, epoch)
        rows = source.make_rows(
            corpora, position, epoch, step, seed=int(seed[0]), shuffle=shuffle
        )
        if "inputs" in specs:
            target = np.where(rows["weight"] > 0, rows["target"], source.vocab.pad_id)
            rows |= {"inputs": rows["encoder_token"], "targets": target}
        return [rows[key] for key in specs]

    def make_tensors(number, element):
        order = ("position", "size", "split", "shuffle", "seed")
        types = [tf.as_dtype(spec.dtype) for spec in specs.values()]
        inputs = [number, *(element[key] for key in order)]
        arrays = tf.numpy_function(make_rows, inputs, types)
        for array, spec in zip(arrays, specs.values(), strict=True):
            array.set_shape([None, *spec.shape])
        return dict(zip(specs, arrays, strict=True))

    def preprocess(dataset, sequence_length=None):
        for key, length in (sequence_length or {}).items():
            if key not in specs:
                raise unknown(
                    f"feature of the task {name} in sequence_length", key, specs
                )
            if specs[key].shape not in ((length,), length):
                raise UserError(
                    f"the task {name} makes {key} of shape {specs[key].shape}, not "
                    f"{length}; set data.length, not a sequence_length"
                )
        return dataset.enumerate().batch(ROWS_PER_CALL).map(make_tensors).unbatch()

    return preprocess


def _scheduled_sampler(tasks: list[str], schedule: MixtureSchedule):
    """A mixture's `sample_fn` that follows the schedule instead of a sampler."""

    def interleave(datasets, rates, seed):
        by_name = dict(zip(sorted(tasks), datasets, strict=True))
        corpus = tf.data.Dataset.from_tensor_slices(schedule.corpus).repeat()
        return tf.data.Dataset.choose_from_datasets(
            [by_name[name] for name in tasks], corpus, stop_on_empty_dataset=True
        )

    return interleave
