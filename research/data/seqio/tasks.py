"""Tasks in the seqio registry: ours put there, any one read; alone uses TensorFlow.

One of ours is `corpus:objective`, or `corpus:objective:length` where data.length is not
the default; a mixture is `mix:objective`, with its parts as `mix.corpus:objective`.
"""

import importlib
import re
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from research.batch import EVALUATION_STEP, ArraySpec, VocabInfo
from research.data.loading.build import Opened, open_text
from research.data.loading.examples import EVALUATION_SEED, Text
from research.data.loading.permutation import Schedule
from research.data.seqio.task_reader import Registered
from research.data.seqio.task_vocabulary import vocab_info_of, word_starts
from research.errors import UserError, unknown

tf.config.set_visible_devices([], "GPU")  # or TensorFlow would take their memory

DEFAULT_LENGTH = 128
"""Of data.length in experiments/base.py."""

ROWS = 256
"""Examples that are made by one call."""

OWN: dict[str, list[str]] = {}
"""What was registered here: task -> itself; mixture -> its tasks, in our order."""


def register(config: Any, objective: Any, opened: Opened | None = None) -> str:
    """Puts the task of a config in the registry, or its mixture; returns the name.

    Its examples are those of `Pipeline`, byte for byte: shuffled as an epoch is where
    `shuffle` is asked for, else in order; `seed` defaults to that of the config. They
    are made at full length: a `sequence_length` may only repeat their shapes. Tasks
    with an encoder and a decoder also have `inputs` and `targets`.
    `seqio.PassThroughFeatureConverter` is the converter that fits.

    Args:
      opened: what `open_text` gives, if it is at hand.

    Raises:
      UserError: the name is taken by a task of another owner, a value of
        config.data is not right, or the objective reads contiguous streams.
    """
    _refuse_streams(config, objective)
    opened = opened or open_text(config, objective)
    train, data = opened.train, config.data
    texts = {data.train_split: train, data.eval_split: opened.eval}
    specs = objective.batch_spec(data.length) | {"example": ArraySpec(())}
    if "encoder_token" in specs:
        specs |= {"inputs": specs["encoder_token"], "targets": specs["target"]}
    names = [re.sub(r"\W+", "_", name).strip("_") for name in train.names]
    ending = f":{config.objective.name}"
    ending += f":{data.length}" if data.length != DEFAULT_LENGTH else ""
    if len(names) == 1:
        return _add_task(names[0] + ending, texts, 0, specs)
    if len(set(names)) < len(names):
        raise UserError(f"data.mixture: some corpora share a name: {', '.join(names)}")
    parts = [f"mix.{name}{ending}" for name in names]
    for number, part in enumerate(parts):
        _add_task(part, texts, number, specs)
    _make_room("mix" + ending, parts)
    rates = zip(parts, train.schedule.count.tolist(), strict=True)
    interleave = _interleave(parts, train.schedule)
    seqio.MixtureRegistry.add("mix" + ending, list(rates), sample_fn=interleave)
    return "mix" + ending


def _refuse_streams(config: Any, objective: Any) -> None:
    """The registry knows no batch size, on which the order of streams depends."""
    if objective.text_spec(config.data.length).contiguous:
        raise UserError(
            f"objective {config.objective.name} reads contiguous streams, which the "
            "registry has none of; set data.reader=native and data.task to nothing"
        )


def _add_task(name: str, texts: dict[str, Text], corpus: int, specs: dict) -> str:
    vocabulary = seqio.PassThroughVocabulary(next(iter(texts.values())).vocab.size)
    features = {
        key: seqio.Feature(
            vocabulary,
            add_eos=False,
            dtype=tf.as_dtype(spec.dtype),
            rank=len(spec.shape),
        )
        for key, spec in specs.items()
    }
    _make_room(name, [name])
    seqio.TaskRegistry.add(
        name,
        source=Places(texts, corpus),
        preprocessors=[_make_rows(name, texts, corpus, specs)],
        output_features=features,
        shuffle_buffer_size=None,
    )
    return name


def _make_room(name: str, tasks: list[str]) -> None:
    """The name is ours from now on: an older task of ours gives way."""
    if registered(name) and name not in OWN:
        raise UserError(f"{name}: a task that is not ours has this name already")
    seqio.TaskRegistry.remove(name)
    seqio.MixtureRegistry.remove(name)
    OWN[name] = tasks


def registered(name: str) -> bool:
    """Whether seqio knows a task or mixture of this name."""
    return name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names()


class Places(seqio.DataSource):
    """The places of one epoch of one corpus, and how to read them.

    seqio repeats a source without telling it the epoch, whose order and noise are its
    own; so the text is read after that, by `_make_rows`, which counts the epochs.
    """

    supports_arbitrary_sharding = True

    def __init__(self, texts: dict[str, Text], corpus: int):
        sizes = {split: int(text.sizes[corpus]) for split, text in texts.items()}
        super().__init__(
            splits=tuple(texts),
            num_input_examples=sizes,
            caching_permitted=False,
            performs_internal_shuffling=True,
        )
        self._texts = texts

    def list_shards(self, split: str) -> list[str]:
        return [split]

    def get_dataset(
        self, split="train", shuffle=True, seed=None, shard_info=None, **unused
    ) -> tf.data.Dataset:
        """Elements of scalars; a shard has every `num_shards`-th place."""
        size = self.num_input_examples(split)
        index, step = (
            (shard_info.index, shard_info.num_shards) if shard_info else (0, 1)
        )
        if not shuffle:
            seed = EVALUATION_SEED
        elif seed is None:
            seed = self._texts[split].seed
        told = {
            "size": len(range(index, size, step)),
            "split": self.splits.index(split),
            "shuffle": int(shuffle),
            "seed": seed,
        }
        told = {name: tf.cast(value, tf.int64) for name, value in told.items()}
        return tf.data.Dataset.range(index, size, step).map(
            lambda place: {"place": place, **told}
        )


def _make_rows(name: str, texts: dict[str, Text], corpus: int, specs: dict):
    """The preprocessor that reads and hides, many examples at a time."""
    by_number = list(texts.values())

    def make(number, place, size, split, shuffle, seed):
        text, part = by_number[split[0]], np.full_like(place, corpus)
        epoch = number // size
        shuffled = bool(shuffle[0])
        step = text.steps(part, place, epoch) if shuffled else EVALUATION_STEP
        rows = text.make(part, place, epoch, step, seed=int(seed[0]), shuffle=shuffled)
        if "inputs" in specs:
            target = np.where(rows["weight"] > 0, rows["target"], text.vocab.pad_id)
            rows |= {"inputs": rows["encoder_token"], "targets": target}
        return [rows[key] for key in specs]

    def call(number, element):
        order = ("place", "size", "split", "shuffle", "seed")
        types = [tf.as_dtype(spec.dtype) for spec in specs.values()]
        inputs = [number, *(element[key] for key in order)]
        arrays = tf.numpy_function(make, inputs, types)
        for array, spec in zip(arrays, specs.values(), strict=True):
            array.set_shape([None, *spec.shape])
        return dict(zip(specs, arrays, strict=True))

    def read_and_hide(dataset, sequence_length=None):
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
        return dataset.enumerate().batch(ROWS).map(call).unbatch()

    return read_and_hide


def _interleave(parts: list[str], plan: Schedule):
    """A mixture's `sample_fn`: the schedule in place of a sampler."""

    def interleave(datasets, rates, seed):
        by_name = dict(zip(sorted(parts), datasets, strict=True))
        turns = tf.data.Dataset.from_tensor_slices(plan.corpus).repeat()
        return tf.data.Dataset.choose_from_datasets(
            [by_name[name] for name in parts], turns, stop_on_empty_dataset=True
        )

    return interleave


def find(name: str) -> seqio.Task | seqio.Mixture:
    """The task or mixture that data.task names.

    Args:
      name: of a registered one; or `package.module:name`, where the import of that
        module registers it.

    Raises:
      UserError: there is none of this name.
    """
    if registered(name):
        return seqio.get_mixture_or_task(name)
    module, _, rest = name.partition(":")
    known = [*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()]
    if not rest:
        raise unknown("data.task", name, known)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name and f"{module}.".startswith(f"{error.name}.")):
            raise UserError(f"data.task: the module {module} needs {error}") from error
        raise unknown("data.task", name, known) from error
    if not registered(rest):
        known = [*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()]
        raise unknown(f"data.task: task of the module {module}:", rest, known)
    return seqio.get_mixture_or_task(rest)


def open_own(config: Any, objective: Any, opened: Opened) -> list[Registered]:
    """The same rows as `opened`'s train and eval, by way of the registry."""
    name = register(config, objective, opened)
    texts = [
        (config.data.train_split, opened.train),
        (config.data.eval_split, opened.eval),
    ]
    return [
        Registered(
            seqio.get_mixture_or_task(name),
            objective,
            opened.vocab,
            length=config.data.length,
            split=split,
            seed=config.seed,
            batch=config.train.batch,
            tasks=[seqio.TaskRegistry.get(part) for part in OWN[name]],
            text=text,
        )
        for split, text in texts
    ]


def open_any(config: Any, objective: Any) -> tuple[VocabInfo, Registered, Registered]:
    """The vocab, and the train and eval rows, of a task that is not ours."""
    _refuse_streams(config, objective)
    for key in ("dupe_factor", "lexicon"):
        if config.data[key]:
            raise UserError(f"data.{key} is not for a data.task that is not ours")
    task = find(config.data.task)
    features = task.output_features
    arrays = [
        name for name in objective.batch_spec(config.data.length) if name in features
    ]
    which = "targets" if "targets" in features else (arrays or [*features])[0]
    vocabulary = features[which].vocabulary
    vocab = vocab_info_of(vocabulary, config.data.sentinels)
    splits = (config.data.train_split, config.data.eval_split)
    train, held_out = (
        Registered(
            task,
            objective,
            vocab,
            length=config.data.length,
            split=split,
            seed=config.seed,
            batch=config.train.batch,
            words=word_starts(vocabulary, vocab.size),
        )
        for split in splits
    )
    return vocab, train, held_out
