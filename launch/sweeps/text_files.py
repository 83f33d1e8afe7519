"""Checks that the files of trials exist before any trial runs."""

import os
from collections.abc import Iterable

from launch.config import load_config
from launch.sweeps.trial import Trial
from research.config import base
from research.contract.errors import UserError
from research.data.read.text_sources import source_of
from research.data.source.build import has_split, split_corpora
from research.files.paths import is_in_bucket


def check_text_files(trials: Iterable[Trial]) -> None:
    """Checks that the files of data.corpus, train, valid and test can be read.

    They are located, not opened. Data sets of the Hub and of TFDS, tasks of seqio and
    files in buckets are not checked.

    Raises:
      UserError: a file is missing or may not be read; names the first trial.
    """
    seen = set()
    for trial in trials:
        keys = {
            key: value
            for key, value in trial.config.items()
            if key.startswith(("data.", "objective.")) and key not in trial.parents
        }
        if trial.done or (text := repr(sorted(keys.items()))) in seen:
            continue
        seen.add(text)
        try:
            _check(keys)
        except UserError as error:
            raise UserError(f"{trial.name}: {error}") from error


def _check(keys: dict) -> None:
    config = load_config(base.__file__, keys)
    data = config.data
    names = [data.corpus, data.train, data.valid, data.test, *data.mixture]
    if data.task or any(source_of(name) or is_in_bucket(name) for name in names):
        return
    splits = ["train", data.eval_split, *["test"] * has_split(data, "test")]
    for split in dict.fromkeys(splits):
        for corpus in split_corpora(data, config.objective, split):
            for file in corpus.files:
                if not os.access(file, os.R_OK):
                    raise UserError(
                        f"data.{split}: {file} cannot be read (no permission)"
                    )
