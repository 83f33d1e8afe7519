"""Prints a sweep's results as a table, next to the numbers of a paper.

    palimpsest table --table=experiments/tables/objectives.py --workdir=runs/mine

A cell whose runs are missing is empty and names the command that runs them; then the
exit code is 1.
"""

import argparse

from launch import cli, user_code
from launch.reports import cells, formats
from launch.reports.table_files import sweep_table
from research.contract.errors import unknown
from research.files.output_files import write_output


def run(args: argparse.Namespace) -> int:
    """Prints the table, or writes it to a file."""
    if args.format not in formats.FORMATS:
        raise unknown("format", args.format, formats.FORMATS)
    table, trials = sweep_table(args.table, args.workdir)
    if args.baseline:
        table = table._replace(baseline=args.baseline, baselines={})
    with user_code.name_line_in_errors(args.table):
        grid = cells.fill_table(table, trials)
        is_page = args.output or args.format != "md"
        draw = formats.FORMATS[args.format] if is_page else formats.printed
        text = draw(table, grid)
    if args.output:
        write_output(args.output, text, "--output")
    else:
        print(text, end="")
    return cli.DONE if cells.is_complete(grid) else cli.FAILED


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    help = "a file of experiments/tables; default: the sweep's rows and metrics"
    parser.add_path("--table", default="", help=help)
    parser.add_path("--workdir", required=True, help="folder of the sweep")
    help = "row that all others are compared with, instead of the table's"
    parser.add_argument("--baseline", default="", help=help)
    parser.add_argument("--format", default="md", help=" | ".join(formats.FORMATS))
    parser.add_path("--output", default="", help="file to write; default: stdout")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
