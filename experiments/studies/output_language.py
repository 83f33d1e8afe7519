"""In which language a network writes that was tuned in another: texts, and a table.

    python -m experiments.studies.output_language texts --multi30k=data/multi30k \\
        --tatoeba=data/tatoeba --to=runs/captions
    python -m experiments.studies.output_language write \\
        --sweep=runs/xnlg --texts=runs/captions
    python -m experiments.studies.output_language table \\
        runs/xnlg/written/*.jsonl

`texts` makes what experiments/sweeps/xnlg.py reads, from captions in English, German
and French (Multi30k, task 1) in lower case and without accents, as a vocabulary with
data.normalizer=uncased has them. The first 20,000 are the pairs en-de.tsv and en-fr.tsv
and the texts en.jsonl, de.jsonl and fr.jsonl, beside sentences of Tatoeba (de-en.de and
so on, which are not in the order of their translations). The task, train.jsonl and
valid.jsonl, is of the other captions, in English alone: to restore a caption from its
words but for function words. test.jsonl has the test set in all three languages.

`write` lets the finished networks of the sweep, but for XLM, write captions from the
words of the test set: from each language to itself, and from English to the others.
`table` has for each row and direction how often py3langid, which knows 97 languages,
takes the text for one in the language that was asked for, chrF and BLEU: means over
seeds with 95 % intervals, of two seeds both values. py3langid is beside the
environment:

    pip install --no-deps --target=.venv/py3langid py3langid
    PYTHONPATH=.venv/py3langid python -m experiments.studies.output_language table ...
"""

import argparse
import gzip
import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch import cli
from research.contract.errors import UserError

LANGUAGES = ("en", "de", "fr")
"""In the order of their token types."""
DIRECTIONS = ("en-en", "de-de", "fr-fr", "en-de", "en-fr")
"""The language that is read, and the one that is written."""
TASKS = """[captions]
data.train = "train.jsonl"
data.valid = "valid.jsonl"
data.fields = "words,caption"
"""
NUM_PAIRS = 20_000
NUM_VALID = 50
"""Captions that a run writes when it ends."""
FUNCTION_WORDS = {
    "en": "a an the in on at of to with by for from and or while as is are be was "
    "were has have his her their its it he she they him them that this "
    "there who into",
    "de": "ein eine einer eines einem einen der die das den dem des im in am an "
    "auf aus bei mit nach von vom vor zu zum zur und oder wahrend als ist "
    "sind wird werden hat haben sein seine seinem seinen seiner ihr ihre "
    "ihrem ihren ihrer er sie es sich fur",
    "fr": "un une des le la les l de du d au aux a en dans sur avec par pour et "
    "ou tandis que qu qui est sont ont son sa ses leur leurs il elle ils "
    "elles se s ce cette",
}


def plain(text: str) -> str:
    """The text in lower case, without accents, with single spaces."""
    letters = unicodedata.normalize("NFD", text.lower())
    kept = (each for each in letters if unicodedata.category(each) != "Mn")
    return " ".join("".join(kept).split())


def content_words(text: str, language: str) -> str:
    """The words of a plain text in their order, but for function words and marks."""
    left_out = FUNCTION_WORDS[language].split()
    return " ".join(w for w in re.findall(r"\w+", text) if w not in left_out)


def texts(args: argparse.Namespace) -> None:
    folder = Path(args.to)
    folder.mkdir(parents=True, exist_ok=True)

    def captions(split: str, language: str) -> list[str]:
        return _read(Path(args.multi30k) / f"{split}.{language}.gz")

    def write(name: str, lines: Iterator[Mapping[str, Any]]) -> None:
        rows = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / name).write_text("".join(rows), "utf-8")

    def task(found: Sequence[str]) -> Iterator[dict[str, str]]:
        for caption in found:
            if words := content_words(caption, "en"):
                yield {"words": words, "caption": caption}

    train = {each: captions("train", each)[:NUM_PAIRS] for each in LANGUAGES}
    for language, found in train.items():
        others = LANGUAGES[1:] if language == "en" else (language,)
        paths = [Path(args.tatoeba) / f"{each}-en.{language}" for each in others]
        more = sorted({text for path in paths for text in _read(path)})
        write(f"{language}.jsonl", ({"text": text} for text in [*found, *more]))
    for language in LANGUAGES[1:]:
        sides = zip(train["en"], train[language], strict=True)
        lines = "".join(f"{one}\t{other}\n" for one, other in sides)
        (folder / f"en-{language}.tsv").write_text(lines, "utf-8")
    (folder / "tasks.toml").write_text(TASKS, "utf-8")
    write("train.jsonl", task(captions("train", "en")[NUM_PAIRS:]))
    write("valid.jsonl", task(captions("val", "en")[:NUM_VALID]))
    test = [captions("test_2016_flickr", each) for each in LANGUAGES]
    write(
        "test.jsonl",
        (dict(zip(LANGUAGES, row, strict=True)) for row in zip(*test, strict=True)),
    )


def _read(path: Path) -> list[str]:
    """The plain texts of a file with one on each line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return [plain(line) for line in data.decode("utf-8").splitlines()]


def write(args: argparse.Namespace) -> None:
    from etils import epath

    from launch.sweeps.sweep_plan import read_plan
    from research.files.output_files import write_output
    from research.program.setup import use_compilation_cache

    path = Path(args.texts) / "test.jsonl"
    test = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for trial in read_plan(epath.Path(args.sweep)):
        name = f"{trial.row}-{trial.config['seed']}.jsonl"
        to = Path(args.sweep) / "written" / name
        if trial.row == "XLM" or not trial.done or to.exists():
            continue
        use_compilation_cache(trial.config["data.cache_dir"])
        rows = _written(str(trial.folder), test[: args.limit or None], args)
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_output(str(to), "".join(lines), "--sweep")
        print(to, file=sys.stderr)


def _written(
    workdir: str, test: Sequence[Mapping[str, str]], args: argparse.Namespace
) -> Iterator[dict[str, str]]:
    """What a run writes for each direction and caption."""
    from research.use.inference.open_run import open_run

    model, options = open_run(workdir), {"max_tokens": args.max_tokens}
    if args.beams > 1:  # as the released code's
        options |= {"method": "beam", "beams": args.beams, "length_penalty": 0.9}
        options |= {"beam_rule": "huggingface"}
    words_of = {
        each: [content_words(row[each], each) for row in test] for each in LANGUAGES
    }
    every = (words for found in words_of.values() for words in found)
    longest = max(every, key=lambda each: len(model.run.vocabulary.encode(each)[0]))
    for direction in DIRECTIONS:
        read, written = direction.split("-")
        types = ":".join(str(LANGUAGES.index(each)) for each in (read, written))
        # With it all directions have one shape, so that the first compiles for all.
        prompts = [*words_of[read], longest]
        found = model.generate(prompts, languages=types, **options)
        for row, words, texts in zip(test, prompts, found, strict=False):
            line = {"direction": direction, "words": words, "caption": row[written]}
            yield line | {"text": texts[0].text.strip()}


def table(args: argparse.Namespace) -> None:
    try:
        from py3langid import classify
    except ImportError as error:
        raise UserError("py3langid is not installed: see --help") from error
    rows: dict[str, list[list[dict]]] = {}
    for name in sorted(args.files):
        lines = [
            json.loads(line) for line in Path(name).read_text("utf-8").splitlines()
        ]
        rows.setdefault(Path(name).stem.rpartition("-")[0], []).append(lines)
    first = next(iter(rows.values()))[0]
    rows["the words themselves"] = [[line | {"text": line["words"]} for line in first]]
    rows["the captions themselves"] = [
        [line | {"text": line["caption"]} for line in first]
    ]
    identify = lambda text: classify(text)[0]  # noqa: E731
    found = {
        name: [
            [measure(lines, each, identify) for lines in seeds] for each in DIRECTIONS
        ]
        for name, seeds in rows.items()
    }
    for number, title in enumerate(("right language, %", "chrF", "BLEU")):
        print(f"| {title} | seeds | {' | '.join(DIRECTIONS)} |")
        print("|---|--:|" + "--:|" * len(DIRECTIONS))
        for name, directions in found.items():
            cells = [_cell([seed[number] for seed in each]) for each in directions]
            print(f"| {name} | {len(rows[name])} | {' | '.join(cells)} |")
        print()


def measure(
    lines: Sequence[Mapping[str, str]], direction: str, identify: Any
) -> tuple[float, float, float]:
    """Percentage in the right language, chrF and BLEU of the texts of a direction."""
    import sacrebleu

    own = [line for line in lines if line["direction"] == direction]
    texts, captions = ([line[key] for line in own] for key in ("text", "caption"))
    language = direction.split("-")[1]
    right = 100 * sum(identify(text) == language for text in texts) / len(texts)
    chrf = sacrebleu.corpus_chrf(texts, [captions]).score
    return right, chrf, sacrebleu.corpus_bleu(texts, [captions]).score


def _cell(values: Sequence[float]) -> str:
    """The mean and the margin of its interval over seeds; of two the values."""
    from research.evaluation.statistics import estimate

    if len(values) < 3:
        return ", ".join(f"{value:.1f}" for value in values)
    mean, margin = estimate(values)[:2]
    return f"{mean:.1f} ± {margin:.1f}"


def run(args: argparse.Namespace) -> None:
    args.command(args)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    commands = parser.add_subparsers(
        dest="step", required=True, parser_class=lambda **_: cli.Parser(overrides=False)
    )
    for command, flags in (
        (texts, ("multi30k", "tatoeba", "to")),
        (write, ("sweep", "texts")),
    ):
        own = commands.add_parser(command.__name__)
        for flag in flags:
            own.add_argument(f"--{flag}", required=True)
        own.set_defaults(command=command)
    own.add_argument("--beams", type=cli.whole(1), default=1)
    own.add_argument("--max_tokens", type=cli.whole(1), default=40)
    own.add_argument("--limit", type=cli.whole(0), default=0, help="0: none")
    own = commands.add_parser(table.__name__)
    own.add_argument("files", nargs="+")
    own.set_defaults(command=table)
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
