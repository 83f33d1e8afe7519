"""Links of a KEPLER run by descriptions: filtered MRR and hits, a Markdown table.

    python -m experiments.studies.kepler_links --workdir=runs/kepler \\
        --texts=texts.tsv --test=test.triples --known=train.triples,valid.triples

The vector of an entity of the files is the state of bos of its text, so that entities
that training has not seen are ranked, too (inductive). A row is a set of test triples:
all, those whose ends the training triples have, and those with an end that they lack,
which TransE can only guess.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from launch import cli

HITS = (1, 3, 10)
ROWS = 64


def filtered_ranks(
    entity_ED: np.ndarray, relation_QD: np.ndarray, triples: list, known: set, norm: int
) -> np.ndarray:
    """[T, 2]: the ranks of heads and tails, of ties the mean.

    Args:
      triples: [T] of (head, relation, tail) by number.
      known: triples that are true, which are left out.
    """
    true: dict[tuple, list[int]] = {}
    for head, relation, tail in {*triples, *known}:
        true.setdefault((0, relation, tail), []).append(head)
        true.setdefault((1, head, relation), []).append(tail)
    found = []
    for head, relation, tail in triples:
        r = relation_QD[relation]
        sides = (
            (entity_ED + (r - entity_ED[tail]), head, (0, relation, tail)),
            (entity_ED[head] + r - entity_ED, tail, (1, head, relation)),
        )
        ranks = []
        for difference, answer, query in sides:
            distance = np.linalg.norm(difference, ord=norm, axis=1)
            own = distance[answer]
            distance[true[query]] = np.inf
            better, equal = (distance < own).sum(), (distance == own).sum()
            ranks.append(1 + better + equal / 2)
        found.append(ranks)
    return np.array(found)


def run(args: argparse.Namespace) -> None:
    from research.data.read.lexicon import read_texts, read_triples
    from research.use.inference.open_run import open_run

    model, texts = open_run(args.workdir), read_texts(args.texts)
    test = read_triples(Path(args.test))
    train, *others = [read_triples(Path(name)) for name in args.known.split(",")]
    every = [*train, *test, *(triple for other in others for triple in other)]
    entities = [*dict.fromkeys(end for h, _, t in every for end in (h, t))]
    relations = [*dict.fromkeys(relation for _, relation, _ in train)]
    number = {name: n for n, name in enumerate(entities)}
    kind = {name: n for n, name in enumerate(relations)}

    def numbers(triples):
        return [(number[h], kind[r], number[t]) for h, r, t in triples if r in kind]

    length = model.run.objective.description
    options = {"pool": "class", "max_length": length}
    vectors = model.encode([texts[name] for name in entities], **options)
    relation = np.asarray(model.run.params["head_relation"]["out"]["kernel"])
    asked = numbers(test)[: args.limit or None]
    norm = model.run.objective.norm
    ranks = filtered_ranks(vectors, relation, asked, {*numbers(every)}, norm)
    seen = {end for h, _, t in numbers(train) for end in (h, t)}
    is_seen = np.array([h in seen and t in seen for h, _, t in asked])
    head = " | ".join(["triples", "number", "MRR", *(f"hits@{k}" for k in HITS)])
    lines = [f"| {head} |", "|---|" + "--:|" * (2 + len(HITS))]
    rows = {"all": is_seen | True, "seen ends": is_seen, "an unseen end": ~is_seen}
    for name, chosen in rows.items():
        own = ranks[chosen]
        if len(own):
            values = [(1 / own).mean(), *((own <= k).mean() for k in HITS)]
            cells = " | ".join(f"{value:.3f}" for value in values)
            lines.append(f"| {name} | {len(own):,} | {cells} |")
    sys.stdout.write("\n".join(lines) + "\n")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--workdir", required=True, help="run of kepler")
    parser.add_path("--texts", required=True, help="file of name<TAB>text")
    parser.add_path("--test", required=True, help="triples that are ranked")
    parser.add_argument("--known", required=True, help="files, training's first")
    parser.add_argument("--limit", type=cli.whole(0), default=0, help="0: all")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
