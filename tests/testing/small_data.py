"""A small corpus on disk, a lexicon, and configs that read them."""

import contextlib
import dataclasses
import json
import random

from research import objectives
from research.config import base
from research.config.config import Config
from research.data.source.build import open_text
from research.data.source.saved_batches import save_batches
from research.objectives.noise import mask_units
from research.predictions import prediction_kind
from research.program.setup import open_run_data


def reads_annotated_text(name: str) -> bool:
    """Whether it reads no text like `write_corpus`'s, or no lexicon of words."""
    objective = objectives.make_objective(name)
    spec = objective.text_spec(32)
    is_written = objective.predicts and prediction_kind(objective.predicts).is_written
    has_parts = is_written or spec.label not in ("", "class")
    needs_other_lexicon = objective.lexicon_lines not in ("", mask_units.LINES)
    return has_parts or bool(spec.arrays) or needs_other_lexicon


READ_ANNOTATED_TEXT = tuple(filter(reads_annotated_text, objectives.names()))


def write_corpus(folder, name: str, *, seed: int, documents: int = 60) -> str:
    """The path of a new folder of random texts of two paragraphs, with labels."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(1, 6))) for _ in range(200)]

    def paragraph() -> str:
        sizes = [rng.randint(2, 20) for _ in range(rng.randint(1, 5))]
        texts = (" ".join(rng.choices(words, k=size)) for size in sizes)
        return " ".join(text.capitalize() + "." for text in texts)

    (folder / name).mkdir()
    with (folder / name / "texts.jsonl").open("w") as file:
        for number in range(documents):
            text = f"{paragraph()}\n{paragraph()}"
            row = {"text": text, "label": f"kind {number % 3}"}
            file.write(json.dumps(row) + "\n")
    return str(folder / name)


def write_lexicon(folder) -> str:
    """The path of a new lexicon of words and phrases that may occur in those texts."""
    file = folder / "lexicon.tsv"
    lines = [f"{a}{b}\tword" for a in "abcdefgh" for b in "abcdefgh"]
    lines += [f"{a} {b}\tphrase" for a in "abcdefgh" for b in "abcdefgh"]
    file.write_text("\n".join(lines))
    return str(file)


def config(corpus, cache, objective: str = "mlm", **fields):
    """A config that reads `corpus`: a path, or a mixture, a dict from path to rate."""
    config = base.get_config()
    config.objective.name = objective
    config.objective.update(fields)
    data = config.data
    if isinstance(corpus, dict):
        data.mixture = corpus
    else:
        data.corpus = corpus
    data.held_out = 0.15
    data.length = 32
    unit = objectives.make_objective(**config.objective).text_spec(32).unit
    data.stride = 30 if unit == "stream" else 0
    data.vocabulary = "bytebpe"
    data.vocabulary_size = 400
    data.sentinels = 20
    data.cache_dir = str(cache)
    config.train.batch = 8
    config.train.steps = 20
    return config


@contextlib.contextmanager
def restored_seqio_registry():
    """Restores seqio's registries at the end."""
    import seqio

    from research.data.seqio import register_tasks

    registries = (seqio.TaskRegistry, seqio.MixtureRegistry)
    before = {registry: dict(registry._REGISTRY) for registry in registries}
    yield
    for registry, entries in before.items():
        registry._REGISTRY.clear()
        registry._REGISTRY.update(entries)
    register_tasks.OWN_TASKS.clear()


def open_small(config):
    """The `Data` of a config, and its objective."""
    typed = Config.of(config)
    return open_run_data(typed), typed.objective


def open_with(config, objective):
    """The `Data` that another objective than the config's reads."""
    return open_run_data(dataclasses.replace(Config.of(config), objective=objective))


def open_text_with(config, objective):
    """The opened text that an objective reads."""
    typed = Config.of(config)
    numbers = {"seed": typed.seed, "batch_size": typed.train.batch}
    return open_text(typed.data, objective, **numbers)


def save_with(config, objective, data, folder, steps):
    """Saves the batches of an objective's `Data`."""
    typed = Config.of(config)
    save_batches(typed.data, objective, data, folder, seed=typed.seed, steps=steps)


def register_with(config, objective):
    """The name of the seqio task that is registered for an objective."""
    from research.data.seqio import register_tasks

    opened = open_text_with(config, objective)
    return register_tasks.register(Config.of(config).data, objective, opened)
