"""Writes a sweep's table with figures and provenance: report.md and report.html.

    palimpsest report --table=experiments/tables/objectives.py --workdir=runs/mine

report.html is a single file; the figures of report.md are files next to it. So is
numbers.csv with every single number, from which the table can be rebuilt. A cell whose
runs are missing is empty and names the command that runs them; then the exit code is 1.

For papers there is table.tex, for booktabs: the best of each column in bold, stars
where a row differs from the baseline (--verdicts=none: without), a short caption
(--caption, --label), the columns of --columns, and after ± half the 95 % interval or,
with --spread=sd, the standard deviation over seeds. --width=3.25 also writes curves and
bars as PDFs of that width in inches, such as a column's; --panels=one draws the curves
of all rows in one panel.
"""

import argparse

from etils import epath

from launch import cli, user_code
from launch.reports import cells, formats, paper, report_pages
from launch.reports.report import make_report
from launch.reports.table_files import sweep_table
from research.contract.errors import UserError
from research.files.output_files import (
    delete_unfinished,
    replace_text,
    write_output,
)

MAX_INCHES = 20


def run(args: argparse.Namespace) -> int:
    """Writes both pages and the figures, and prints the table."""
    table, trials = sweep_table(args.table, args.workdir)
    columns = paper.named_columns(args.columns, table)
    style = paper.Style(columns, args.spread, args.verdicts, args.caption, args.label)
    style.check(table)
    if not 0 <= args.width <= MAX_INCHES:
        raise UserError(f"--width must be 0 to {MAX_INCHES} inches, not {args.width:g}")
    with user_code.name_line_in_errors(args.table):
        report = make_report(
            table, trials, inches=args.width, one_panel=args.panels == "one"
        )
    print(formats.printed(report.table, report.grid), flush=True)
    folder = epath.Path(args.workdir)
    files = {file: svg for file, (_, svg) in report.figures.items()} | {
        "report.md": report_pages.markdown_page(report),
        "report.html": report_pages.html_page(report),
        "numbers.csv": formats.numbers(report.table, report.grid),
        "table.tex": paper.latex(report.table, report.grid, style),
    }
    for name, text in files.items():
        delete_unfinished(folder / name)
        replace_text(folder / name, text)
    for name, content in report.pdfs.items():
        write_output(folder / name, content, "--workdir")
    print(f"{folder / 'report.md'}\n{folder / 'report.html'}")
    return cli.DONE if cells.is_complete(report.grid) else cli.FAILED


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    help = "a file of experiments/tables; default: the sweep's rows and metrics"
    parser.add_path("--table", default="", help=help)
    parser.add_path("--workdir", required=True, help="folder of the sweep")
    parser.add_argument("--columns", default="", help="of table.tex: A,B; default: all")
    parser.add_argument("--spread", default="ci", help=" | ".join(paper.SPREADS))
    parser.add_argument("--verdicts", default="stars", help="stars | none")
    parser.add_argument("--caption", default="", help="of table.tex")
    parser.add_argument("--label", default="", help="of table.tex, e.g. tab:main")
    parser.add_argument("--width", type=float, default=0.0, help="of PDFs, in inches")
    parser.add_argument("--panels", default="rows", choices=("rows", "one"))
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
