"""Word vectors beside gensim's: the same text, words, window, negatives, width, passes.

    .venv/bin/python -m tests.proofs.beside_gensim text FOLDER TEXTS... TASKS
    .venv/bin/python -m tests.proofs.beside_gensim run FOLDER GENSIM MODEL SEED...
    .venv/bin/python -m tests.proofs.beside_gensim compare FOLDER MODEL

The first writes the text: paragraphs of .jsonl.gz files in lower-case letters alone, of
the most frequent words; TASKS is a folder with questions-words.txt and files of
similarities. The second trains what FOLDER does not have yet, ours as a run and
gensim's with one worker by an interpreter that has it (`uv venv; uv pip install
gensim`); MODEL is skipgram or fasttext, SEED a number above 0. Rates are picked on seed
0, which `compare` leaves out, among as many of each. Words a second are of CPU time,
since a machine may be shared: of ours all that the command does, from its start, and
of gensim the training alone.
"""

import argparse
import gzip
import itertools
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
VOCABULARY, PASSES, WIDTH, WINDOW, NEGATIVES = 20_000, 4, 100, 5, 5
SUBSAMPLE, BUCKETS, NGRAMS = 1e-3, 100_000, (3, 6)
LENGTH, BATCH = 256, 64
RATES = {
    "ours": ("0.2-0.05", "0.4-0.05", "0.8-0.05", "0.8-0.2"),
    "gensim": ("0.025", "0.05", "0.1", "0.2"),
}
"""Of ours AdaGrad's largest step of an entry, and the rate of one pair of rare words;
of gensim the rate of a pair."""
PAIRS = 58_000
"""Of a batch, about."""
MARGINS = {"analogies": 2.0, "similarity": 0.02}
"""Differences that do not matter: points of accuracy, Spearman's correlation."""


def write_text(folder: Path, sources: list[str]) -> None:
    """FOLDER/words.txt and FOLDER/valid.txt, of every fiftieth paragraph."""
    lines, count = [], Counter()
    for source in sources:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            texts = (json.loads(line)["text"] for line in file)
            for paragraph in itertools.chain.from_iterable(map(str.splitlines, texts)):
                words = re.findall("[a-z]+", paragraph.lower())
                lines.append(words)
                count.update(words)
    kept = sorted(count, key=lambda word: (-count[word], word))[:VOCABULARY]
    index = set(kept)
    lines = [[word for word in line if word in index] for line in lines]
    lines = [" ".join(line) + "\n" for line in lines if len(line) > 1]
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "valid.txt").write_text("".join(lines[::50]))
    del lines[::50]
    Path(folder, "words.txt").write_text("".join(lines))
    sizes = {"words": sum(len(line.split()) for line in lines), "lines": len(lines)}
    Path(folder, "sizes.json").write_text(json.dumps(sizes))
    print(sizes)


def train_gensim(folder: Path, model: str, seed: int, rate: str, to: Path) -> None:
    """Run by an interpreter with gensim, and by nothing else of this project."""
    from gensim.models import FastText, Word2Vec
    from gensim.models.word2vec import LineSentence

    fields = {"vector_size": WIDTH, "window": WINDOW, "negative": NEGATIVES}
    fields |= {"sample": SUBSAMPLE, "min_count": 1, "sg": 1, "workers": 1}
    if model == "fasttext":
        least, most = NGRAMS
        fields |= {"min_n": least, "max_n": most, "bucket": BUCKETS}
    kind = {"skipgram": Word2Vec, "fasttext": FastText}[model]
    made = kind(alpha=float(rate), seed=seed, **fields)
    sentences = LineSentence(str(folder / "words.txt"))
    made.build_vocab(sentences)
    begin = time.process_time()
    made.train(sentences, total_examples=made.corpus_count, epochs=PASSES)
    seconds = time.process_time() - begin
    made.wv.save_word2vec_format(str(to) + ".part")
    Path(str(to) + ".seconds").write_text(str(seconds))
    Path(str(to) + ".part").rename(to)


def train_ours(folder: Path, model: str, seed: int, rate: str, to: Path) -> None:
    """A run in FOLDER, and its vectors."""
    import resource

    sizes = json.loads(Path(folder, "sizes.json").read_text())
    tokens = PASSES * (sizes["words"] + sizes["lines"])
    steps = -(-tokens // (LENGTH * BATCH))
    experiment = {"skipgram": "word2vec", "fasttext": "fasttext"}[model]
    peak, pair_rate = map(float, rate.split("-"))
    keys = {
        "seed": seed,
        "data.train": folder / "words.txt",
        "data.valid": folder / "valid.txt",
        "data.vocabulary_size": VOCABULARY + 5,
        "data.sentinels": 0,
        "data.cache_dir": folder / "cache",
        "data.length": LENGTH,
        "model.width": WIDTH,
        "objective.window": WINDOW,
        "objective.negatives": NEGATIVES,
        "objective.subsample": SUBSAMPLE,
        "objective.power": 0.75,
        "optimizer.learning_rate": peak,
        "optimizer.initial_sum": (peak / (pair_rate * PAIRS)) ** 2,
        "train.steps": steps,
        "train.batch": BATCH,
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
    }
    if model == "fasttext":
        keys |= {"model.buckets": BUCKETS}
        keys |= dict(zip(("model.min_ngram", "model.max_ngram"), NGRAMS, strict=True))
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    workdir = folder / to.stem
    command = [sys.executable, "-m", "launch.train", f"--workdir={workdir}"]
    command += [f"--config={ROOT}/experiments/{experiment}.py:small", *flags]
    subprocess.run(command, cwd=ROOT, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "launch.vectors", f"--workdir={workdir}"]
    subprocess.run([*command, f"--to={to}"], cwd=ROOT, check=True)
    Path(f"{to}.seconds").write_text(str(used.ru_utime + used.ru_stime))


def run(folder: Path, gensim: str, model: str, seeds: list[int]) -> None:
    """Trains what is missing; the rates of seeds above 0 are the best of seed 0."""
    for whose, seed in itertools.product(RATES, sorted({0, *seeds})):
        rates = RATES[whose] if seed == 0 else [best_rate(folder, model, whose)]
        for rate in rates:
            to = folder / f"{model}-{whose}-{rate}-{seed}.txt"
            if to.exists():
                continue
            flags = [str(folder), model, str(seed), str(rate), str(to)]
            here = [sys.executable, "-m", "tests.proofs.beside_gensim"]
            there = [gensim, __file__]
            command = [*(here if whose == "ours" else there), f"one-{whose}", *flags]
            subprocess.run(command, cwd=ROOT, check=True)


def best_rate(folder: Path, model: str, whose: str) -> str:
    """By MEN and analogies, each over its mean of all rates, on seed 0."""
    tasks = json.loads(Path(folder, "tasks.json").read_text())
    found = {
        rate: scores(folder / f"{model}-{whose}-{rate}-0.txt", tasks)
        for rate in RATES[whose]
    }
    names = ("analogies", "EN-MEN-TR-3k")
    mean = {n: sum(each[n] for each in found.values()) / len(found) for n in names}
    return max(found, key=lambda rate: sum(found[rate][n] / mean[n] for n in names))


def scores(path: Path, tasks: list[str]) -> dict[str, float]:
    """Percent of analogies, and Spearman of each file of similarities."""
    from research.evaluation.word_vectors import WordVectors, sums
    from research.files.vector_files import read_vectors

    vectors = WordVectors(*read_vectors(path))
    found = {}
    for task in map(Path, tasks):
        if task.stem == "questions-words":
            count = sums(vectors.answer_analogies(task))["all"]
            found["analogies"] = 100 * count.accuracy
        else:
            found[task.stem] = vectors.compare_similarities(task).spearman
    return found


def compare(folder: Path, model: str) -> None:
    """A line for each task: both means, the difference, and whether it is shown to be
    within the margin (two one-sided Welch tests at 5 %: the 90 % interval is)."""
    import numpy as np
    from scipy import stats

    tasks = json.loads(Path(folder, "tasks.json").read_text())
    sizes = json.loads(Path(folder, "sizes.json").read_text())
    values, words = {}, PASSES * sizes["words"]
    for whose in RATES:
        rate = best_rate(folder, model, whose)
        paths = sorted(folder.glob(f"{model}-{whose}-{rate}-[1-9]*.txt"))
        values[whose] = [scores(path, tasks) for path in paths]
        seconds = [float(Path(f"{path}.seconds").read_text()) for path in paths]
        speed = words / np.mean(seconds)
        print(f"{whose}: rate {rate}, {len(paths)} seeds, {speed:,.0f} words/CPU s")
    for name in values["ours"][0]:
        ours, theirs = ([each[name] for each in v] for v in values.values())
        test = stats.ttest_ind(ours, theirs, equal_var=False)
        low, high = test.confidence_interval(0.9)
        margin = MARGINS["analogies" if name == "analogies" else "similarity"]
        verdict = "equivalent" if -margin < low and high < margin else "not shown"
        spread = f"{np.std(ours, ddof=1):.3f} and {np.std(theirs, ddof=1):.3f}"
        print(
            f"{name}: ours {np.mean(ours):.3f}, gensim {np.mean(theirs):.3f} (SD "
            f"{spread}); difference {low:.3f} to {high:.3f} (90 %), margin {margin}: "
            f"{verdict}; p of no difference {test.pvalue:.3g}"
        )


def main(args: argparse.Namespace) -> None:
    path, rest = Path(args.folder).absolute(), args.rest
    match args.command:
        case "text":
            *sources, tasks = rest
            write_text(path, sources)
            files = [str(f) for f in sorted(Path(tasks).rglob("*.txt"))]
            Path(path, "tasks.json").write_text(json.dumps(files))
        case "run":
            gensim, model, *seeds = rest
            run(path, gensim, model, [int(seed) for seed in seeds])
        case "one-ours" | "one-gensim":
            model, seed, rate, to = rest
            train = train_ours if args.command == "one-ours" else train_gensim
            train(path, model, int(seed), rate, Path(to))
        case "compare":
            compare(path, *rest)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = ("text", "run", "one-ours", "one-gensim", "compare")
    parser.add_argument("command", choices=commands)
    parser.add_argument("folder")
    parser.add_argument("rest", nargs="*")
    return parser


if __name__ == "__main__":
    main(parser().parse_args())
