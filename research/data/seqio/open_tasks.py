"""Opens seqio tasks as sources of rows: those that we registered and the user's."""

import importlib
import sys
from typing import TYPE_CHECKING

import seqio

from research.contract.batch import VocabInfo
from research.contract.errors import UserError, unknown
from research.data.options import DataOptions
from research.data.seqio import register_tasks
from research.data.seqio.task_errors import name_line
from research.data.seqio.task_features import find_split
from research.data.seqio.task_source import TaskSource
from research.data.seqio.task_vocabulary import make_vocab_info, word_starts
from research.data.source.build import OpenedText

if TYPE_CHECKING:
    from research.objectives import Objective

REFUSED = {
    "dupe_factor": 0,
    "lexicon": "",
    "mixture": {},
    "packing": "none",
    "pairs": "once",
}
"""Keys of data that a user's task does not support -> their defaults."""
NOT_READ = {
    "alpha": 0.0,
    "encoding": "utf-8",
    "fields": "",
    "format": "auto",
    "held_out": 0.02,
    "label": "",
    "normalizer": "none",
    "separator": "eos",
    "stride": 0,
    "vocabulary": "unigram",
    "whitespace": "auto",
}
"""Keys of data that say how our own text is read -> their defaults."""


def find_task(name: str) -> seqio.Task | seqio.Mixture:
    """The task or mixture that data.task names.

    Args:
      name: a registered name; or `package.module:name`, where importing that module
        registers it.

    Raises:
      UserError: there is no task of this name.
    """
    if register_tasks.is_registered(name):
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
    except (Exception, SystemExit) as error:
        with name_line(f"data.task: the module {module}"):
            raise error
    if not register_tasks.is_registered(rest):
        known = [*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()]
        raise unknown(f"data.task: task of the module {module}:", rest, known)
    return seqio.get_mixture_or_task(rest)


def open_own_task(
    options: DataOptions,
    objective: "Objective",
    opened: OpenedText,
    *,
    seed: int,
    batch_size: int,
) -> tuple[TaskSource, TaskSource]:
    """Train and eval sources with the same rows as `opened`, read through seqio.

    Raises:
      UserError: see `register_tasks.register`.
    """
    name = register_tasks.register(options, objective, opened)
    task_names = register_tasks.OWN_TASKS[name]
    train, held_out = (
        TaskSource(
            seqio.get_mixture_or_task(name),
            objective,
            opened.vocab,
            length=options.length,
            split=split,
            seed=seed,
            batch_size=batch_size,
            tasks=[seqio.TaskRegistry.get(task) for task in task_names],
            text=text,
        )
        for split, text in (
            (options.train_split, opened.train),
            (options.eval_split, opened.eval),
        )
    )
    return train, held_out


def open_user_task(
    options: DataOptions, objective: "Objective", *, seed: int, batch_size: int
) -> tuple[VocabInfo, TaskSource, TaskSource]:
    """The vocabulary, and the train and eval sources, of a user's task.

    Raises:
      UserError: there is no such task or split, the objective cannot read it, a metric
        cannot be computed, or a key is set that only our own text supports.
    """
    register_tasks.refuse_contiguous(options, objective)
    _check_keys(options)
    task = find_task(options.task)
    for split in (options.train_split, options.eval_split):
        find_split(task, split)
    features = task.output_features
    arrays = [name for name in objective.batch_spec(options.length) if name in features]
    feature = "targets" if "targets" in features else (arrays or [*features])[0]
    vocabulary = features[feature].vocabulary
    vocab = make_vocab_info(vocabulary, options.sentinels)
    train, held_out = (
        TaskSource(
            task,
            objective,
            vocab,
            length=options.length,
            split=split,
            seed=seed,
            batch_size=batch_size,
            starts_word=word_starts(vocabulary, vocab.size),
        )
        for split in (options.train_split, options.eval_split)
    )
    if held_out.has_inputs:
        held_out.check_metrics()
    for source in (train, held_out):
        source.check_first()
    train.check_order()
    return vocab, train, held_out


def _check_keys(options: DataOptions) -> None:
    """Prints which keys are set although a user's task does not read them.

    Raises:
      UserError: a key is set that it does not support.
    """
    for key, value in REFUSED.items():
        if getattr(options, key) != value:
            raise UserError(
                f"data.{key} is set, but data.task {options.task} is a seqio task "
                "of your own, which does not support it"
            )
    unread = [
        f"data.{key}"
        for key, value in NOT_READ.items()
        if getattr(options, key) != value
    ]
    if unread:
        print(
            f"data.task {options.task} is a seqio task of your own, which does not "
            f"read {', '.join(unread)}",
            file=sys.stderr,
        )
