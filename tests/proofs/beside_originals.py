"""Word vectors beside the programs that they came from: gensim's, and GloVe's in C.

    P="python -m tests.proofs.beside_originals"
    $P text FOLDER TEXTS... TASKS [--vocabulary=20000] [--passes=4]
    $P run FOLDER ORIGINAL MODEL SEED...
    $P compare FOLDER MODEL

The first writes the text: paragraphs of .jsonl.gz files in lower-case letters alone, of
the most frequent words; TASKS is a folder with questions-words.txt and files of
similarities. The second trains what FOLDER does not have yet, ours as a run and the
original's with one worker; MODEL is skipgram, cbow, fasttext or glove, SEED a number
above 0. ORIGINAL is an interpreter that has gensim (`uv venv; uv pip install gensim`),
or for glove the folder of stanfordnlp/GloVe's programs. Both get the same text, words,
window, negatives, width and passes. Where `RATES` has several rates, they are picked on
seed 0, which `compare` leaves out. Words (of glove, pairs) a second are of CPU time,
since a machine may be shared: of ours all that the command does, from its start, and of
the original the training alone.
"""

import argparse
import gzip
import itertools
import json
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH, WINDOW, NEGATIVES = 100, 5, 5
SUBSAMPLE, BUCKETS, NGRAMS = 1e-3, 100_000, (3, 6)
GLOVE = {"width": 50, "x_max": 10.0, "passes": 15}
"""The values of the demo."""
LENGTH = 256
BATCH = {"skipgram": 16, "cbow": 16, "fasttext": 4}
"""Rows of a step of ours."""
RATES = {
    "skipgram": {"ours": ("0.8-0.2",), "original": ("0.025", "0.05", "0.1", "0.2")},
    "cbow": {"ours": ("0.8-0.2", "0.4-0.1"), "original": ("0.05", "0.1")},
    "fasttext": {"ours": ("0.8-0.2",), "original": ("0.05", "0.1")},
    "glove": {"ours": ("0.05", "0.1"), "original": ("0.05", "0.1")},
}
"""Of ours AdaGrad's largest step of an entry, and the rate of one prediction of a rare
word; of the original the rate of a prediction. Of glove eta."""
EXPERIMENTS = {"skipgram": "word2vec", "cbow": "word2vec"}
"""Where the experiment has another name than the model."""
PREDICTIONS = {"skipgram": 16_500, "cbow": 3_000, "fasttext": 4_125}
"""Of a batch, about: pairs, or of cbow centres."""
MARGINS = {"analogies": 2.0, "similarity": 0.02}
"""Differences that do not matter: points of accuracy, Spearman's correlation."""


def write_text(folder: Path, sources: list[str], vocabulary: int, passes: int) -> None:
    """FOLDER/words.txt and FOLDER/valid.txt, of every fiftieth paragraph."""
    lines, count = [], Counter()
    for source in sources:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            texts = (json.loads(line)["text"] for line in file)
            for paragraph in itertools.chain.from_iterable(map(str.splitlines, texts)):
                words = re.findall("[a-z]+", paragraph.lower())
                lines.append(words)
                count.update(words)
    kept = sorted(count, key=lambda word: (-count[word], word))[:vocabulary]
    index = set(kept)
    lines = [[word for word in line if word in index] for line in lines]
    lines = [" ".join(line) + "\n" for line in lines if len(line) > 1]
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "valid.txt").write_text("".join(lines[::50]))
    del lines[::50]
    Path(folder, "words.txt").write_text("".join(lines))
    sizes = {"words": sum(len(line.split()) for line in lines), "lines": len(lines)}
    sizes |= {"vocabulary": vocabulary, "passes": passes}
    Path(folder, "sizes.json").write_text(json.dumps(sizes))
    print(sizes)


def sizes_of(folder: Path) -> dict[str, int]:
    return json.loads(Path(folder, "sizes.json").read_text())


def train_gensim(folder: Path, model: str, seed: int, rate: str, to: Path) -> None:
    """Run by an interpreter with gensim, and by nothing else of this project."""
    from gensim.models import FastText, Word2Vec
    from gensim.models.word2vec import LineSentence

    fields = {"vector_size": WIDTH, "window": WINDOW, "negative": NEGATIVES}
    fields |= {"sample": SUBSAMPLE, "min_count": 1, "workers": 1}
    fields |= {"sg": int(model != "cbow")}
    if model == "fasttext":
        least, most = NGRAMS
        fields |= {"min_n": least, "max_n": most, "bucket": BUCKETS}
    kind = FastText if model == "fasttext" else Word2Vec
    made = kind(alpha=float(rate), seed=seed, **fields)
    sentences = LineSentence(str(folder / "words.txt"))
    made.build_vocab(sentences)
    begin, passes = time.process_time(), sizes_of(folder)["passes"]
    made.train(sentences, total_examples=made.corpus_count, epochs=passes)
    seconds = time.process_time() - begin
    made.wv.save_word2vec_format(str(to) + ".part")
    Path(f"{to}.seconds").write_text(str(seconds))
    Path(f"{to}.part").rename(to)


def train_glove(folder: Path, programs: Path, seed: int, rate: str, to: Path) -> None:
    """The programs of stanfordnlp/GloVe; the last word of its file, <unk>, is left."""
    words, vocabulary = folder / "words.txt", folder / "glove-vocabulary.txt"
    pairs, shuffled = folder / "glove-pairs.bin", folder / "glove-shuffled.bin"
    saved, log = folder / "glove-vectors", folder / "glove-log.txt"

    def call(name: str, source: Path, sink: Path, **flags) -> None:
        given = [(f"-{flag.replace('_', '-')}", str(flags[flag])) for flag in flags]
        command = [programs / name, *itertools.chain(*given)]
        with open(source, "rb") as file, open(sink, "wb") as out:
            subprocess.run(command, stdin=file, stdout=out, check=True)

    own = {"vocab_file": vocabulary}
    call("vocab_count", words, vocabulary, min_count=1)
    call("cooccur", words, pairs, window_size=WINDOW, memory=2, **own)
    own["seed"] = seed or 2**20  # the tool's 0 is the time
    call("shuffle", pairs, shuffled, memory=2, seed=own["seed"])
    fields = {"vector_size": GLOVE["width"], "iter": GLOVE["passes"], "eta": rate}
    fields |= {"x_max": GLOVE["x_max"], "threads": 1, "binary": 0, "model": 2}
    before = child_seconds()
    files = {"input_file": shuffled, "save_file": saved}
    call("glove", vocabulary, log, **files, **fields, **own)
    Path(f"{to}.seconds").write_text(str(child_seconds() - before))
    lines = Path(f"{saved}.txt").read_text().splitlines(keepends=True)
    assert lines.pop().startswith("<unk> ")
    to.write_text("".join(lines))
    print("pairs:", pairs.stat().st_size // 16)


def child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train_ours(folder: Path, model: str, seed: int, rate: str, to: Path) -> None:
    """A run in FOLDER, and its vectors."""
    sizes = sizes_of(folder)
    keys = {
        "seed": seed,
        "data.vocabulary_size": sizes["vocabulary"] + 5,
        "data.sentinels": 0,
        "data.cache_dir": folder / "cache",
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
    }
    keys |= (
        glove_keys(folder, rate) if model == "glove" else text_keys(folder, model, rate)
    )
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    workdir, before = folder / to.stem, child_seconds()
    experiment = f"{ROOT}/experiments/{EXPERIMENTS.get(model, model)}.py:small"
    command = [sys.executable, "-m", "launch.train", f"--workdir={workdir}"]
    subprocess.run([*command, f"--config={experiment}", *flags], cwd=ROOT, check=True)
    seconds = child_seconds() - before
    command = [sys.executable, "-m", "launch.commands.vectors", f"--workdir={workdir}"]
    subprocess.run([*command, f"--to={to}"], cwd=ROOT, check=True)
    Path(f"{to}.seconds").write_text(str(seconds))


def text_keys(folder: Path, model: str, rate: str) -> dict:
    """Of the models that read a text."""
    sizes, (peak, own_rate) = sizes_of(folder), map(float, rate.split("-"))
    tokens = sizes["passes"] * (sizes["words"] + sizes["lines"])
    batch = BATCH[model]
    keys = {
        "data.train": folder / "words.txt",
        "data.valid": folder / "valid.txt",
        "data.length": LENGTH,
        "model.width": WIDTH,
        "objective.window": WINDOW,
        "objective.negatives": NEGATIVES,
        "objective.subsample": SUBSAMPLE,
        "objective.power": 0.75,
        "optimizer.learning_rate": peak,
        "optimizer.initial_sum": (peak / (own_rate * PREDICTIONS[model])) ** 2,
        "train.steps": -(-tokens // (LENGTH * batch)),
        "train.batch": batch,
    }
    if model == "cbow":
        keys |= {"objective.name": "cbow"}
    if model == "fasttext":
        keys |= {"model.buckets": BUCKETS}
        keys |= dict(zip(("model.min_ngram", "model.max_ngram"), NGRAMS, strict=True))
    return keys


def glove_keys(folder: Path, rate: str) -> dict:
    """Of glove, whose pairs are counted if FOLDER lacks them."""
    pairs = folder / "words.cooccurrences"
    if not pairs.exists():
        flags = [f"--texts={folder / 'words.txt'}", f"--to={pairs}"]
        flags += [f"--window={WINDOW}", "--min-count=1"]
        command = [sys.executable, "-m", "launch.commands.cooccurrences", *flags]
        subprocess.run(command, cwd=ROOT, check=True)
    length, batch = 1024, 64
    count = pairs.read_bytes().count(b"\n")
    return {
        "data.train": pairs,
        "data.valid": pairs,
        "data.length": length,
        "model.width": GLOVE["width"],
        "objective.x_max": GLOVE["x_max"],
        "optimizer.learning_rate": rate,
        "train.steps": -(-GLOVE["passes"] * count // (length // 2 * batch)),
        "train.batch": batch,
    }


def run(folder: Path, original: str, model: str, seeds: list[int]) -> None:
    """Trains what is missing; the rates of seeds above 0 are the best of seed 0."""
    for whose, seed in itertools.product(RATES[model], sorted({0, *seeds})):
        rates = RATES[model][whose] if seed == 0 else [best_rate(folder, model, whose)]
        for rate in rates:
            to = folder / f"{model}-{whose}-{rate}-{seed}.txt"
            if to.exists():
                continue
            if whose == "ours":
                train_ours(folder, model, seed, rate, to)
            elif model == "glove":
                train_glove(folder, Path(original), seed, rate, to)
            else:
                flags = [str(folder), model, str(seed), rate, str(to)]
                command = [original, __file__, "one-gensim", *flags]
                subprocess.run(command, cwd=ROOT, check=True)


def best_rate(folder: Path, model: str, whose: str) -> str:
    """By MEN and analogies, each over its mean of all rates, on seed 0."""
    rates = RATES[model][whose]
    if len(rates) == 1:
        return rates[0]
    tasks = json.loads(Path(folder, "tasks.json").read_text())
    found = {
        rate: scores(folder / f"{model}-{whose}-{rate}-0.txt", tasks) for rate in rates
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
    sizes = sizes_of(folder)
    values, done = {}, sizes["passes"] * sizes["words"]
    if model == "glove":
        pairs = folder / "words.cooccurrences"
        done = GLOVE["passes"] * pairs.read_bytes().count(b"\n")
    for whose in RATES[model]:
        rate = best_rate(folder, model, whose)
        paths = sorted(folder.glob(f"{model}-{whose}-{rate}-[1-9]*.txt"))
        values[whose] = [scores(path, tasks) for path in paths]
        seconds = [float(Path(f"{path}.seconds").read_text()) for path in paths]
        speed = done / np.median(seconds)
        print(f"{whose}: rate {rate}, {len(paths)} seeds, {speed:,.0f} a CPU second")
    for name in values["ours"][0]:
        ours, theirs = ([each[name] for each in v] for v in values.values())
        test = stats.ttest_ind(ours, theirs, equal_var=False)
        low, high = test.confidence_interval(0.9)
        margin = MARGINS["analogies" if name == "analogies" else "similarity"]
        verdict = "equivalent" if -margin < low and high < margin else "not shown"
        spread = f"{np.std(ours, ddof=1):.3f} and {np.std(theirs, ddof=1):.3f}"
        print(
            f"{name}: ours {np.mean(ours):.3f}, original {np.mean(theirs):.3f} (SD "
            f"{spread}); difference {low:.3f} to {high:.3f} (90 %), margin {margin}: "
            f"{verdict}; p of no difference {test.pvalue:.3g}"
        )


def main(args: argparse.Namespace) -> None:
    path, rest = Path(args.folder).absolute(), args.rest
    match args.command:
        case "text":
            *sources, tasks = rest
            write_text(path, sources, args.vocabulary, args.passes)
            files = [str(f) for f in sorted(Path(tasks).absolute().rglob("*.txt"))]
            Path(path, "tasks.json").write_text(json.dumps(files))
        case "run":
            original, model, *seeds = rest
            run(path, original, model, [int(seed) for seed in seeds])
        case "one-gensim":
            model, seed, rate, to = rest
            train_gensim(path, model, int(seed), rate, Path(to))
        case "compare":
            compare(path, *rest)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("text", "run", "one-gensim", "compare"))
    parser.add_argument("folder")
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--vocabulary", type=int, default=20_000, help="words")
    parser.add_argument("--passes", type=int, default=4, help="over the text")
    return parser


if __name__ == "__main__":
    main(parser().parse_args())
