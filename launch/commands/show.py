"""Shows what an objective does to your text: `palimpsest show --config=F --data=T`.

Prints rows of the text T before and after: which tokens are hidden, replaced or kept,
which positions are scored, and which position attends to which. T is a file of any
format that data.valid reads; without --data the rows are of the config's own evaluation
split. The vocabulary is the config's, trained on its training text; --workdir=RUN in
place of --config has the run's config and its vocabulary. --html=PAGE.html
writes a page with colours and pictures.

--keys lists the config keys with their defaults and meanings: of the sections and parts
that --config chooses, or without --config of all.
"""

import argparse
import sys
from typing import Any

import numpy as np
from etils import epath

from launch import cli, key_docs
from launch.config import load_config, run_config
from research.config import sections
from research.config.config import Config
from research.contract.errors import UserError


def run(args: argparse.Namespace) -> None:
    if args.keys:
        if unread := [f for f in ("workdir", "data", "html") if getattr(args, f)]:
            raise UserError(f"--keys lists those of --config; leave out --{unread[0]}")
        config = load_config(args.config, args.overrides) if args.config else None
        print(_keys_text(config))
        return
    if bool(args.config) == bool(args.workdir):
        raise UserError("give --config=experiments/X.py or --workdir=RUN, or --keys")
    overrides = dict(args.overrides)
    if args.data:
        overrides |= {"data.valid": args.data, "data.eval_split": "valid"}
    if args.workdir:
        config = run_config(epath.Path(args.workdir), overrides)
    else:
        config = load_config(args.config, overrides)
    # After the config: a wrong key is reported without waiting for imports.
    from launch.reports import row_views
    from research.files.output_files import check_output, write_output

    if args.html:
        check_output(args.html, "--html")
    flags = {"data.valid": "--data"} if args.data else {}
    with cli.keys_as_flags(flags, overrides=True):
        rows = shown_rows(config, args.rows)
    first = (type(config.objective).__doc__ or "").strip().partition("\n")[0]
    title = f"{config.objective_name}: {first}"
    if args.html:
        pattern = f"Attention pattern: {config.objective.pattern}."
        name = args.config or args.workdir
        page = row_views.as_html(name, f"{title} {pattern}", rows)
        write_output(args.html, page, "--html")
        print(args.html, file=sys.stderr)
        return
    print(f"{title}\n")
    for number, row in enumerate(rows, 1):
        print(f"row {number}")
        print(row_views.as_text(row, colours=sys.stdout.isatty()), end="\n\n")
    for group in rows[0].groups:
        name = f" of the {group.name}" if group.name else ""
        print(f"attention{name} in row 1: # is a position that the line's token reads")
        print(row_views.attention_text(group), end="\n\n")
    states = {token.state for row in rows for g in row.groups for token in g.tokens}
    for state, meaning in row_views.MEANINGS.items():
        if state in states:
            print(f"{state}: {meaning}")


def shown_rows(config: Config, count: int) -> list[Any]:
    """`row_views.Row` of the first rows of the evaluation split.

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
            "data.task names batches whose vocabulary is not known; name the text"
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
    return [
        row_views.view(
            batch,
            row,
            data.vocabulary,
            before=texts.token[row, : texts.length[row]].tolist(),
            **options,
        )
        for row in number.tolist()
    ]


def _keys_text(config: Config | None) -> str:
    """The keys, by section and part, with their values in a config, or defaults."""
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
    return "\n".join(lines).strip()


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_path("--config", default="", help="experiments/X.py[:size]")
    parser.add_path("--workdir", default="", help="folder of a run")
    parser.add_path("--data", default="", help="file of text whose rows are shown")
    parser.add_argument("--rows", type=cli.whole(1), default=2, help="rows to show")
    parser.add_path("--html", default="", help="page that is written")
    parser.add_argument("--keys", action="store_true", help="list the config keys")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
