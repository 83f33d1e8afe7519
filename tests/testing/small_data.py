"""A small corpus on disk, and configs that read it."""

import contextlib
import json
import random

from experiments import base
from research import objectives
from research.data.pipeline import open_data


def write_corpus(folder, name: str, *, seed: int, documents: int = 60) -> str:
    """The path of a new folder of made-up texts with labels, of two paragraphs each."""
    draw = random.Random(seed)
    words = [
        "".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(200)
    ]

    def paragraph() -> str:
        sizes = [draw.randint(2, 20) for _ in range(draw.randint(1, 5))]
        texts = (" ".join(draw.choices(words, k=size)) for size in sizes)
        return " ".join(text.capitalize() + "." for text in texts)

    (folder / name).mkdir()
    with (folder / name / "texts.jsonl").open("w") as file:
        for number in range(documents):
            text = f"{paragraph()}\n{paragraph()}"
            row = {"text": text, "label": f"kind {number % 3}"}
            file.write(json.dumps(row) + "\n")
    return str(folder / name)


def write_lexicon(folder) -> str:
    """The path of a new lexicon of words and phrases that those texts may hold."""
    file = folder / "lexicon.tsv"
    lines = [f"{a}{b}\tword" for a in "abcdefgh" for b in "abcdefgh"]
    lines += [f"{a} {b}\tphrase" for a in "abcdefgh" for b in "abcdefgh"]
    file.write_text("\n".join(lines))
    return str(file)


def config(corpus, cache, objective: str = "mlm", **fields):
    """A config that reads `corpus`: a path, or a dict of paths and rates."""
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
    windows = (
        objectives.make_objective(**config.objective).text_spec(32).unit == "stream"
    )
    data.stride = 30 if windows else 0
    data.vocabulary = "bytebpe"
    data.vocabulary_size = 400
    data.sentinels = 20
    data.cache_dir = str(cache)
    config.train.batch = 8
    config.train.steps = 20
    return config


@contextlib.contextmanager
def clean_registry():
    """Leaves seqio's registry as it was."""
    import seqio

    from research.data.seqio import tasks

    kinds = (seqio.TaskRegistry, seqio.MixtureRegistry)
    before = {kind: dict(kind._REGISTRY) for kind in kinds}
    yield
    for kind, old in before.items():
        kind._REGISTRY.clear()
        kind._REGISTRY.update(old)
    tasks.OWN.clear()


def open_small(config):
    """The data of a config, and its objective."""
    objective = objectives.make_objective(**config.objective)
    return open_data(config, objective), objective
