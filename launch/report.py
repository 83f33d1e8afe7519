"""Writes a sweep's table with figures and provenance: report.md and report.html.

    python -m launch.report --table=experiments/tables/objectives.py --workdir=runs/mine

report.html is a single file; the figures of report.md are files beside it. So is
numbers.csv, with every single number: the table can be made anew from it. A cell whose
runs are missing is empty and says which command runs them; then the exit code is 1.
"""

import argparse

from etils import epath

from launch import cli, user_code
from launch.reports import cells, formats, report_pages
from launch.reports.report import make_report
from launch.reports.table_files import sweep_table
from research.files.output_files import delete_unfinished, replace_text


def run(args: argparse.Namespace) -> int:
    """Writes both pages and the figures, and prints the table."""
    table, trials = sweep_table(args.table, args.workdir)
    with user_code.name_line_in_errors(args.table):
        report = make_report(table, trials)
    print(formats.markdown(report.table, report.grid), flush=True)
    folder = epath.Path(args.workdir)
    files = {file: svg for file, (_, svg) in report.figures.items()} | {
        "report.md": report_pages.markdown_page(report),
        "report.html": report_pages.html_page(report),
        "numbers.csv": formats.numbers(report.table, report.grid),
    }
    for name, text in files.items():
        delete_unfinished(folder / name)
        replace_text(folder / name, text)
    print(f"{folder / 'report.md'}\n{folder / 'report.html'}")
    return cli.DONE if cells.is_complete(report.grid) else cli.FAILED


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--table", required=True, help="a file of experiments/tables")
    parser.add_argument("--workdir", required=True, help="folder of the sweep")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
