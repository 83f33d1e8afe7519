r"""Links the entities of texts: `palimpsest link --texts=F --names=N --graph=G --to=D`.

One command from a graph to a corpus for pretraining. G has triples, in a notation that
docs/parts.md names, N has lines entity<TAB>name, F has texts. It trains vectors of
the entities of G by experiments/transe.py (in D/transe, resumed if it was stopped),
finds the names in the texts and writes D/texts.linked, D/entities.npz with the vectors
and the entities of each name, and D/names.tsv and D/entities.tsv, which name the rows
of these. Then

    palimpsest train --config=experiments/ernie_thu.py --workdir=runs/ernie \
        --config.data.corpus=D/texts.linked --config.objective.entities=D/entities.npz

--vectors=V reads vectors from a file of palimpsest vectors instead of training them;
--graph then only counts triples. --steps=3000 and --width=100 are of the training. At
each word the longest name is matched. --stop=S leaves out the names on the lines of S,
in addition to words such as "it" and "May", --min-characters=2 leaves out shorter ones,
--name-end=", " ends a name where a gloss begins, --ignore-case ignores case. If a name
has several entities, the --candidates with the most triples are kept.
"""

import argparse
import json
import sys
from pathlib import Path

from launch.cli import Parser, main, whole


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError
    from research.data.read import entity_links, files
    from research.data.read.lexicon import read_lines, read_triples
    from research.files.output_files import check_output, write_output

    folder = Path(args.to)
    if not (args.graph or args.vectors):
        raise UserError(
            "give --graph (triples), --vectors (a file of vectors), or both"
        )
    for flag, value in {"--steps": args.steps, "--width": args.width}.items():
        if args.vectors and value:
            raise UserError(
                f"{flag} is not read with --vectors, which replaces the training"
            )
    read = {f"--{name}": getattr(args, name) for name in READ}
    for name in WRITTEN:
        check_output(folder / name, "--to", {k: v for k, v in read.items() if v})
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--to={folder} is a file; it must be a folder")
    corpus = files.load_file_corpus(args.texts, 0.0, key="--texts")
    triples, vectors, degrees = [], {}, {}
    if args.graph:
        triples = read_triples(Path(args.graph), "--graph")
        for head, _, tail in triples:
            degrees[head] = degrees.get(head, 0) + 1
            degrees[tail] = degrees.get(tail, 0) + 1
    if args.vectors:
        vectors = _read(args.vectors)
        degrees = {name: degrees.get(name, 0) for name in vectors}
    names = entity_links.read_names(
        Path(args.names), end=args.name_end, degrees=degrees
    )
    stop = set(entity_links.STOP_WORDS)
    if args.stop:
        stop |= {line.strip() for _, line in read_lines(Path(args.stop), "--stop")}
    linker = entity_links.Linker(
        names,
        stop=stop,
        min_characters=args.min_characters,
        ignore_case=args.ignore_case,
    )
    if not linker.names:
        if names:
            raise UserError(
                f"all {len(names)} names of --names={args.names} are stop words or "
                f"have fewer than --min-characters={args.min_characters} characters"
            )
        raise UserError(
            f"--names={args.names} has no name of an entity that has a vector; its "
            "lines must be entity<TAB>name, with the entities of the graph"
        )
    print(
        f"{len(linker.names):,} names; {linker.num_stopped:,} others are stop words or "
        "too short",
        file=sys.stderr,
    )
    documents = list(corpus.documents("train"))
    if not documents:
        raise UserError(f"--texts={args.texts} has no texts")
    if not args.vectors:  # last, since it takes long
        vectors = _learn(args, triples, folder / "transe")
    _write_table(folder, linker.names, vectors, args.candidates)
    counts: list[entity_links.Counts] = []

    def lines():
        texts = (document.text for document in documents)
        links = entity_links.link_texts(linker, texts, counts)
        for document, found in zip(documents, links, strict=True):
            row = {"text": document.text}
            if document.label is not None:
                row["label"] = document.label
            first = FIRST_NAME
            row["links"] = [[link.begin, link.end, first + link.name] for link in found]
            yield (json.dumps(row, ensure_ascii=False) + "\n").encode()

    write_output(folder / "texts.linked", lines(), "--to")
    print(f"{folder}/texts.linked: {counts[0]}", file=sys.stderr)


READ = ("texts", "names", "graph", "vectors", "stop")
WRITTEN = ("texts.linked", "entities.npz", "entities.tsv", "names.tsv")
WIDTH, STEPS = 100, 3000
"""Width of the trained vectors, and steps of their training."""

NUM_RANKED = 500
"""Most triples of the graph whose heads and tails are ranked after training."""

FIRST_NAME = 2
"""The number of the first name; see research/objectives/knowledge/entities.py."""


def _learn(args: argparse.Namespace, triples: list, workdir: Path) -> dict:
    """Entity -> vector, from a run of experiments/transe.py."""
    from launch.runs import train
    from research.data.read.triples import spell, spell_relation
    from research.files.output_files import write_output
    from research.use.inference.open_run import open_run

    names = {end for head, _, tail in triples for end in (head, tail)}
    words = {spell(name) for name in names}
    words |= {spell_relation(relation) for _, relation, _ in triples}
    size = 5 + len(words)
    graph = str(Path(args.graph).resolve())
    # Ranking the entities of all triples would take longer than the training.
    valid = workdir.with_suffix(".triples").resolve()
    chosen = triples[:: -(-len(triples) // NUM_RANKED)]
    lines = "".join("\t".join(triple) + "\n" for triple in chosen)
    write_output(valid, lines.encode(), "--to")
    keys = {
        **{f"data.{key}": graph for key in ("train", "lexicon")},
        "data.valid": str(valid),
        "data.vocabulary_size": size,
        "model.width": args.width or WIDTH,
        "train.steps": args.steps or STEPS,
        "train.eval_every": 0,
    }
    train("experiments/transe.py", str(workdir), keys)
    found = open_run(str(workdir)).word_vectors
    return _by_entity(found.words, found.vectors, names)


def _by_entity(words, vectors, names) -> dict:
    """Entity -> vector, found by the words that spell the entities."""
    from research.data.read.triples import spell

    row = {word: number for number, word in enumerate(words)}
    return {name: vectors[row[spell(name)]] for name in names if spell(name) in row}


def _read(path: str) -> dict:
    from research.files.vector_files import read_vectors

    words, vectors = read_vectors(path)
    return dict(zip(words, vectors, strict=True))


def _write_table(folder: Path, names, vectors: dict, candidates: int) -> None:
    """Writes entities.npz, entities.tsv and names.tsv; rows 0 and 1: none and mask."""
    import io

    import numpy as np

    from research.files.output_files import write_output

    used = dict.fromkeys(entity for name in names for entity in name.entities)
    row_of = {entity: number for number, entity in enumerate(used, FIRST_NAME)}
    table = np.array([vectors[entity] for entity in used], np.float32)
    # The mask's vector is random, with the length of the others.
    mask = np.random.default_rng(0).normal(size=(1, table.shape[1]))
    mask *= np.linalg.norm(table, axis=1).mean() / np.linalg.norm(mask)
    vectors = np.concatenate([0 * mask, mask, table]).astype(np.float32)
    width = min(candidates, max(len(name.entities) for name in names))
    candidate = np.zeros((FIRST_NAME + len(names), width), np.int32)
    prior = np.zeros(candidate.shape, np.float32)
    candidate[1, 0], prior[1, 0] = 1, 1
    for number, name in enumerate(names, FIRST_NAME):
        count = min(width, len(name.entities))
        candidate[number, :count] = [row_of[each] for each in name.entities[:count]]
        prior[number, :count] = np.array(name.priors[:count]) / sum(name.priors[:count])
    content = io.BytesIO()
    np.savez(content, vectors=vectors, candidate=candidate, prior=prior)
    write_output(folder / "entities.npz", content.getvalue(), "--to")
    rows = ["<none>", "<mask>", *used]
    write_output(folder / "entities.tsv", "".join(f"{r}\n" for r in rows).encode(), "")
    lines = ["\n", "<mask>\t<mask>\n"]
    lines += ["\t".join([name.text, *name.entities]) + "\n" for name in names]
    write_output(folder / "names.tsv", "".join(lines).encode(), "--to")


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_path("--texts", required=True, help="file or folder of texts")
    parser.add_path("--names", required=True, help="file of entity<TAB>name")
    parser.add_path("--graph", default="", help="file of triples")
    parser.add_path("--vectors", default="", help="file of vectors of entities")
    parser.add_path("--to", required=True, help="output folder")
    parser.add_path("--stop", default="", help="file of names that are not linked")
    parser.add_argument("--min-characters", type=whole(1), default=2, help="of a name")
    parser.add_argument("--name-end", default="", help="text that ends a name")
    parser.add_argument("--ignore-case", action="store_true", help="of names")
    parser.add_argument("--candidates", type=whole(1), default=30, help="per name")
    parser.add_argument("--width", type=whole(1), help=f"of vectors ({WIDTH})")
    parser.add_argument("--steps", type=whole(1), help=f"of training ({STEPS})")
    return parser


if __name__ == "__main__":
    main(run, parser(), resumes=True)
