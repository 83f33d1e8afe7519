"""Shows what an objective does to your text: `palimpsest show --config=F --data=T`.

Prints rows of the text T before and after corruption: which tokens are hidden, replaced
or kept, which positions are scored, and which position attends to which. T is a file of
any format that data.valid reads; without --data the rows are from the config's own
evaluation split. The vocabulary is the config's, trained on its training text;
--workdir=RUN instead of --config uses the run's config and vocabulary. --html=PAGE.html
writes a page with colours and pictures.

--pictures=P has the pictures of a table --data=T of captions (as `palimpsest images`
reads it) with the columns `file` (the path in P) and `caption` (--fields=image,name
names others; JSON lines may have `boxes` and `classes`): each row shows its picture
with regions, what is hidden, and what the network reads; with --workdir also the run's
predictions for it, and the five nearest captions of the table.

--keys lists the config keys with their defaults and meanings: of the sections and parts
that --config chooses, or of all without --config.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from launch import cli, key_docs
from launch.commands.images import size
from launch.config import load_config, run_config
from research.config import sections
from research.config.config import Config
from research.contract.errors import UserError, renamed_keys


def run(args: argparse.Namespace) -> None:
    if args.keys:
        flags = ("workdir", "data", "html", "pictures")
        if unread := [f for f in flags if getattr(args, f)]:
            raise UserError(f"--keys reads only --config; leave out --{unread[0]}")
        config = load_config(args.config, args.overrides) if args.config else None
        print(_keys_text(config))
        return
    if args.config and args.workdir:
        raise UserError(
            "give --config or --workdir, not both; --config.data.vocabulary=RUN takes "
            "a run's vocabulary"
        )
    if not args.config and not args.workdir:
        raise UserError("give --config=experiments/X.py or --workdir=RUN, or --keys")
    data = {"data.valid": args.data, "data.eval_split": "valid"} if args.data else {}
    pictures = own_pictures(args) if args.pictures else contextlib.nullcontext({})
    with pictures as keys:
        _show(args, {**args.overrides, **data, **keys})


@contextlib.contextmanager
def own_pictures(args: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Config keys that read --pictures from a temporary store, while it exists.

    Raises:
      UserError: a row, a picture or a box is wrong.
    """
    from launch.given_texts import picture_columns
    from research.data.read.picture_sources import open_source
    from research.data.read.pictures import read_rows
    from research.data.store.pictures import write_rows
    from research.use.inference.own_pictures import objective_of, write_own

    if not args.data:
        raise UserError("--data=T must name the table of --pictures: file, caption")
    rows = read_rows(Path(args.data), picture_columns(args.fields))
    source = Path(args.pictures)
    with tempfile.TemporaryDirectory(prefix="palimpsest-") as folder:
        keys = {"objective.images": folder, "data.format": "captioned"}
        if args.workdir:
            objective = objective_of(args.workdir)
            file = str(write_own(Path(folder), source, rows, objective))
            if hasattr(objective, "captions"):
                keys["objective.captions"] = "tokens"
        else:
            pictures = open_source(source)
            file = str(write_rows(Path(folder), pictures, rows, size=args.size))
        yield keys | {"data.train": file, "data.valid": file}


def _show(args: argparse.Namespace, overrides: dict[str, str]) -> None:
    if args.workdir:
        config = run_config(epath.Path(args.workdir), overrides)
    else:
        config = load_config(args.config, overrides)
        if hasattr(config.objective, "images") and not config.objective.images:
            raise UserError(
                f"objective {config.objective.name} reads pictures: give --pictures=P "
                "and --data=T, a table of their captions"
            )
    # After the config: a wrong key is reported without waiting for imports.
    from launch.reports import row_views
    from research.data.read.text_sources import source_of
    from research.data.tokenize.train_tokenizer import TRAINED_TYPES
    from research.files.output_files import check_output, write_output

    if args.html:
        check_output(args.html, "--html")
    flags = {"data.valid": "--data"} if args.data else {}
    with renamed_keys(flags, overrides=True):
        model = None
        if args.workdir and args.pictures:
            from research.use.inference.open_run import open_run

            model = open_run(args.workdir, images=overrides["objective.images"])
        show = _fitted_rows if args.pictures else shown_rows
        rows = show(config, args.rows, model)
    data = config.data
    if args.config and args.data and not (args.pictures or data.train):
        source = source_of(data.corpus, built_in=True)
        language = f" ({source.language})" if source and source.language else ""
        corpus = repr(data.corpus) + language
        line = (
            f"vocabulary of corpus {corpus}; --workdir=RUN has that of a run, "
            "--config.data.corpus=FILE trains one"
            if data.vocabulary in TRAINED_TYPES
            else f"counts of tokens: those of corpus {corpus}, not of --data; "
            "--config.data.corpus=FILE counts another"
        )
        print(line, file=sys.stderr)
    first = (type(config.objective).__doc__ or "").strip().partition("\n")[0]
    title = f"{config.objective_name}: {first}"
    if args.html:
        pattern = row_views.PATTERNS[config.objective.pattern]
        name = args.config or args.workdir
        page = row_views.as_html(name, f"{title} {pattern}", rows)
        write_output(args.html, page, "--html")
        print(args.html, file=sys.stderr)
        return
    print(f"{title}\n")
    for number, row in enumerate(rows, 1):
        print(f"row {number}")
        print(row_views.as_text(row, colours=sys.stdout.isatty()), end="\n\n")
    if hidden := row_views.hidden_lines(rows):
        print("\n".join(hidden), end="\n\n")
    for group in rows[0].groups:
        where = f"attention{row_views.attention_title(group)} in row 1:"
        if group.attends.all():
            print(f"{where} every token reads every token\n")
            continue
        print(f"{where} a # for each position that the token on the left reads")
        print(row_views.attention_text(group), end="\n\n")
    for state, meaning in row_views.meanings(rows).items():
        print(f"{state}: {meaning}")
    for line in row_views.signs(rows):
        print(line)


def shown_rows(config: Config, count: int, model: Any = None) -> list[Any]:
    """`row_views.Row` of the first rows of the evaluation split.

    Args:
      model: of `open_run`; its predictions for pictures are shown.

    Raises:
      UserError: the text cannot be read, or is too short for a row.
    """
    from launch.reports import row_views
    from research.contract.batch import EVALUATION_STEP
    from research.data.source.text_source import EVALUATION_SEED, TextSource
    from research.predictions import prediction_kind
    from research.program.setup import open_run_data

    data = open_run_data(config)
    source, objective = data.eval.source, config.objective
    if data.vocabulary is None:
        raise UserError(
            "data.task has batches, whose vocabulary is not known; name the text "
            "instead"
        )
    kind = prediction_kind(objective.predicts) if objective.predicts else None
    labels = kind.output_names(data.vocab.labels) if kind else ()
    options = {"labels": labels, "of_words": bool(kind and kind.of_words)}
    options |= {"objective": objective}
    if not isinstance(source, TextSource):
        batch = next(iter(source.in_order(count)))
        numbers = range(min(count, len(batch["example"])))
        return [row_views.view(batch, n, data.vocabulary, **options) for n in numbers]
    number = np.arange(min(count, source.num_examples))
    batch = source.evaluation_rows(number)
    zero = np.zeros_like(number)
    texts, _ = source.raw_examples(
        zero,
        number,
        zero,
        zero + EVALUATION_STEP,
        seed=EVALUATION_SEED,
        shuffle=False,
    )
    rows = [
        row_views.view(
            batch,
            row,
            data.vocabulary,
            before=texts.token[row, : texts.length[row]].tolist(),
            **options,
        )
        for row in number.tolist()
    ]
    if not hasattr(objective, "store"):
        return rows
    return _with_pictures(rows, batch, texts.arrays["image"][:, 0], config, model)


def _fitted_rows(config: Config, count: int, model: Any) -> list[Any]:
    """`shown_rows` with a vocabulary small enough for a few captions."""
    from research.data.tokenize.tokenizer_types import SizeError

    try:
        return shown_rows(config, count, model)
    except SizeError as error:
        if not 0 < error.fits < config.data.vocabulary_size:
            raise
        fewer = config.with_values({"data.vocabulary_size": error.fits})
    return shown_rows(fewer, count, model)


def _with_pictures(
    rows: list[Any], batch: Any, picture: np.ndarray, config: Config, model: Any
) -> list[Any]:
    """The rows with their pictures and a trained model's predictions for them."""
    from launch.reports.picture_views import panel
    from research.data.read.pictures import read_captioned

    shown = picture[: len(rows)].tolist()
    guessed, nearest = [None] * len(rows), [[]] * len(rows)
    if model:
        from research.use.inference import picture_guesses

        captions = read_captioned(Path(config.data.valid))
        texts = [row.captions[0] for row in captions]
        of = [int(row.file) for row in captions]
        nearest = picture_guesses.nearest_captions(model, texts, of, shown)
        nearest = nearest or [[]] * len(rows)
        if "scored" in batch:
            guessed = picture_guesses.guesses(model.run, batch)
    found = []
    for n, row in enumerate(rows):
        options = {"guesses": guessed[n], "nearest": nearest[n]}
        own = panel(batch, n, config.objective, shown[n], **options)
        others = {
            name: value
            for name, value in row.others.items()
            if not name.endswith(("pixels", "box"))
        }
        groups = [_named(group, batch, n) for group in row.groups]
        found.append(row._replace(groups=groups, panel=own, others=others))
    return found


def _named(group: Any, batch: Any, row: int) -> Any:
    """The group with names for the tokens of a picture."""
    from launch.reports import row_views
    from research.contract.batch import input_group

    is_tower = group.name == "image"
    name = "image_pixels" if is_tower else "pixels"
    if name not in batch:
        return group
    prefix = f"{group.name}_" if group.name else ""
    inputs = {
        name: array[row : row + 1] for name, array in input_group(batch, prefix).items()
    }
    kept = np.flatnonzero(inputs["segment"][0] > 0)
    first = 0 if is_tower else len(inputs["segment"][0]) - batch[name].shape[1]
    tokens = [*group.tokens]
    for n, position in enumerate(kept.tolist()):
        if position >= first:
            text = " [picture]" if position == first else " ·"
            tokens[n] = tokens[n]._replace(text=text)
    return row_views.group(group.name, tokens, inputs, kept)


def _keys_text(config: Config | None) -> str:
    """The keys by section and part, with their values in a config, or defaults."""
    titles, flat = key_docs.all_keys(), {}
    if config is not None:
        values, flat = config.values, config.flat
        chosen = {
            f"{section}.{key}={values[section][key]}"
            for section, key, _ in sections.choices()
        }
        titles = {t: k for t, k in titles.items() if "=" not in t or t in chosen}
    lines = []
    for title, keys in titles.items():
        lines += ["", title]
        for key in keys:
            legal = f" ({key.legal})" if key.legal else ""
            value = repr(flat[key.name]) if key.name in flat else key.default
            lines.append(f"  {key.name}={value}{legal}  {key.meaning}".rstrip())
            lines += [f"      {value}: {line}" for value, line in key.lines.items()]
    return "\n".join(lines).strip()


def parser() -> cli.Parser:
    from research.data.read.picture_sources import kinds

    parser = cli.Parser(__doc__)
    parser.add_path("--config", default="", help="experiments/X.py[:size]")
    parser.add_path("--workdir", default="", help="folder of a run")
    parser.add_path("--data", default="", help="file of text whose rows are shown")
    parser.add_path("--pictures", default="", help=f"{kinds()}; --data names them")
    parser.add_argument("--fields", default="", help="columns, e.g. file,caption")
    parser.add_argument("--size", type=size, default=(72, 72), help="of --pictures")
    parser.add_argument("--rows", type=cli.whole(1), default=2, help="rows to show")
    parser.add_path("--html", default="", help="page to write")
    parser.add_argument("--keys", action="store_true", help="list the config keys")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
