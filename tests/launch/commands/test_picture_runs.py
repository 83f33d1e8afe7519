"""embed, score and predict of pictures of one's own, by small runs of both kinds."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from launch.cli import DONE, MISTAKE, main
from launch.commands import embed, evaluate, images, predict, score, show
from launch.config import load_config
from research.contract.errors import UserError
from research.data.store.pictures import RANDOM
from research.evaluation.retrieval_scores import matrix_ranks, retrieval_ranks
from research.objectives import make_objective
from research.predictions.retrieval import pair_ranks
from research.use.inference.open_run import open_run
from research.use.inference.own_pictures import write_own
from research.use.inference.picture_guesses import Guess, nearest_captions
from tests.testing.tiny_runs import save_untrained

COLOURS = {"red": (250, 0, 0), "green": (0, 200, 0), "blue": (0, 0, 250)}
BOXES = {"objective.region_rate": 0.5, "model.co_layers": 1}
LABELLED = {"objective.name": "picture_classification", "objective.regions": "patches"}
RANKED = {"objective.name": "picture_retrieval", "model.co_layers": 1}
RUNS = {
    "clip": ("clip", {}),
    "picture_classification": ("visualbert", LABELLED),
    "vilbert": ("vilbert", BOXES),
    "picture_retrieval": ("vilbert", RANKED),
}


def run(command, *flags):
    with pytest.raises(SystemExit) as stop:
        main(command.run, command.parser(), list(map(str, flags)))
    return stop.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures, a table, and runs of clip and picture_classification."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "p" / "in").mkdir(parents=True)
    rng, lines = np.random.default_rng(0), ["file\tcaption\tlabel"]
    for n in range(24):
        name = [*COLOURS][n % 3]
        pixels = np.clip(
            np.array(COLOURS[name]) + rng.integers(0, 50, (9, 9, 3)), 0, 255
        )
        file = f"in/{n:02}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "p" / file)
        word = name if n % 2 else [*COLOURS][(n + 1) % 3]
        lines.append(f"{file}\ta {word} square number {n}\t{word == name}")
    (folder / "table.tsv").write_text("\n".join(lines))
    rows = [dict(zip(lines[0].split("\t"), x.split("\t"), strict=True)) for x in lines]
    regions = {"boxes": [[0, 0, 5, 9], [5, 0, 9, 9]], "classes": ["left", "right"]}
    text = "\n".join(json.dumps(row | regions) for row in rows[1:])
    (folder / "table.jsonl").write_text(text)
    flags = [f"--pictures={folder / 'p'}", f"--captions={folder / 'table.jsonl'}"]
    flags += [f"--to={folder / 'd'}", "--size=8", "--label-column=label"]
    images.run(images.parser().parse_args([*flags, "--held-out=0.3"]))
    keys = {"objective.images": folder / "d", "objective.patch": 4, "model.layers": 1}
    keys |= {f"data.{x}": folder / "d" / f"{x}.captioned" for x in ("train", "valid")}
    keys |= {"data.vocabulary_size": 280, "data.cache_dir": folder / "c"}
    keys |= {"data.vocabulary": "bytebpe", "model.width": 32, "model.feedforward": 32}
    for name, (file, own) in RUNS.items():
        values = {key: str(value) for key, value in (keys | own).items()}
        config = load_config(f"experiments/{file}.py:tiny", values)
        save_untrained(folder / name, config)
    return folder


def test_vectors_of_pictures_are_those_that_are_compared(folder, tmp_path, capsys):
    """Of a folder, a list and Python alike; R@k of them is that of `score`."""
    flags = [f"--workdir={folder / 'clip'}", f"--to={tmp_path / 'v.npy'}"]
    assert run(embed, *flags, f"--pictures={folder / 'p'}") == DONE
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (24, 64)
    files = [f"in/{n:02}.png" for n in range(24)]
    (folder / "p" / "list.txt").write_text("\n".join(files[::-1]))
    model = open_run(folder / "clip")
    found = model.encode([folder / "p" / file for file in files], batch=7)
    np.testing.assert_allclose(found, vectors, atol=2e-5)
    capsys.readouterr()
    assert run(embed, flags[0], f"--pictures={folder / 'p' / 'list.txt'}") == DONE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["file"] for line in lines] == files[::-1]
    np.testing.assert_allclose([x["vector"] for x in lines[::-1]], vectors, atol=2e-5)

    table = [line.split("\t") for line in (folder / "table.tsv").open()][1:]
    texts = model.encode([caption for _, caption, _ in table])
    ranks = pair_ranks(found, texts, np.arange(24), np.ones(24))
    flags = [flags[0], "--task=retrieval", f"--data={folder / 'table.tsv'}"]
    assert run(score, *flags, f"--pictures={folder / 'p'}") == DONE
    (scores,) = (folder / "clip" / "evaluations").glob("retrieval-*")
    written = [json.loads(line) for line in (scores / "scores.jsonl").open()]
    np.testing.assert_allclose([line["ranks"] for line in written], ranks, atol=1)
    cells = json.loads((scores / "table.json").read_text())["table"]
    five = cells["image to text"]["R@5"]
    assert five["value"] == np.mean([line["ranks"][0] <= 5 for line in written])
    assert five["low"] <= five["value"] <= five["high"]
    assert cells["text to image"]["R@10 by chance"]["value"] == pytest.approx(10 / 24)


def test_stored_pictures_have_the_ranks_of_the_evaluation(folder, capsys):
    data = f"--data={folder / 'd' / 'valid.captioned'}"
    workdir = f"--workdir={folder / 'clip'}"
    assert run(score, workdir, "--task=retrieval", data) == DONE
    path = capsys.readouterr().out.splitlines()[-1]
    cells = json.loads((Path(path) / "table.json").read_text())["table"]
    assert run(evaluate, workdir) == DONE
    out = capsys.readouterr().out
    value = cells["image to text"]["R@5"]["value"]
    assert f"valid/image_to_text_5 {value:.6g}" in out


def test_labels_of_pictures_of_a_table_are_those_of_the_store(folder, tmp_path):
    """Whatever the pictures beside them; and of one picture and its text."""
    flags = [f"--workdir={folder / 'picture_classification'}"]
    flags += [f"--pictures={folder / 'p'}", f"--data={folder / 'table.tsv'}"]
    assert run(predict, *flags, "--label=label", f"--to={tmp_path / 'a.jsonl'}") == DONE
    found = [json.loads(line) for line in (tmp_path / "a.jsonl").open()]
    assert [item["gold"] for item in found[:2]] == ["False", "True"]
    one = [flags[0], f"--pictures={folder / 'p' / 'in' / '03.png'}"]
    text = (folder / "table.tsv").read_text().splitlines()[4].split("\t")[1]
    assert run(predict, *one, f"--to={tmp_path / 'b.jsonl'}", text) == DONE
    (item,) = [json.loads(line) for line in (tmp_path / "b.jsonl").open()]
    same = pytest.approx(found[3]["probabilities"], abs=1e-5)
    assert item["probabilities"] == same and item["gold"] is None
    assert run(evaluate, flags[0]) == DONE


def test_ranks_of_all_pairs_are_those_of_vectors():
    """Cosines of vectors as a matrix, with equal ones and two captions of a picture."""
    rng, picture = np.random.default_rng(0), np.array([0, 1, 1, 2, 3])
    image, text = rng.integers(0, 2, (4, 3)) + 0.0, rng.integers(0, 2, (5, 3)) + 0.0
    image[:, 0] = text[:, 0] = 1
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (image, text)]
    found = matrix_ranks(unit[0] @ unit[1].T, picture)
    np.testing.assert_array_equal(found, retrieval_ranks(image, text, picture))


@pytest.mark.parametrize("name", ["vilbert", "picture_retrieval"])
def test_a_run_that_reads_both_ranks_all_pairs(folder, capsys, name):
    data = f"--data={folder / 'd' / 'valid.captioned'}"
    workdir = f"--workdir={folder / name}"
    assert run(score, workdir, "--task=retrieval", data) == DONE
    out = capsys.readouterr().out
    assert "retrieval: 7 pictures, 7 captions" in out and "retrieval-match-3-" in out


def test_my_pictures_are_shown_with_what_a_run_predicts(folder, tmp_path, capsys):
    """Of a run of boxes, and one of two towers; without a run, what is hidden."""
    shown = [f"--pictures={folder / 'p'}", f"--data={folder / 'table.jsonl'}"]
    flags = [*shown, f"--workdir={folder / 'vilbert'}"]
    assert run(show, *flags, "--rows=3") == DONE
    out = capsys.readouterr().out
    assert "picture 0 of the caption: in/00.png: 8 x 8 pixels, 2 regions" in out
    for words in ("hidden [", " → ", "they match with probability", "nearest captions"):
        assert words in out
    flags = [*shown, f"--workdir={folder / 'picture_retrieval'}"]
    assert run(show, *flags, "--rows=3") == DONE
    assert "nearest captions" in capsys.readouterr().out
    assert out.count("predicted of a hidden word, ") >= 3
    page = tmp_path / "a.html"
    assert run(show, *shown, f"--workdir={folder / 'clip'}", f"--html={page}") == DONE
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert text.count("right</td>") + text.count("wrong</td>") >= 10
    more = ["--config=experiments/vilt.py:tiny", "--config.objective.patch=4"]
    more += ["--size=8", f"--config.data.cache_dir={folder / 'c'}"]
    more += ["--config.objective.region_rate=0.5"]
    more += ["--config.objective.region_classes=none"]
    more += ["--config.objective.region_regression=l2"]
    assert run(show, *shown, *more, "--rows=4") == DONE
    out = capsys.readouterr().out
    assert "matching (in the pass of matching) reads" in out
    assert "the network reads: 8 x 8 pixels, 4 regions" in out


def test_captions_are_read_with_the_pictures_beside_them(folder, tmp_path, capsys):
    """Not with those of the run, which have the same numbers."""
    lines = (folder / "table.jsonl").read_text().split("\n")[:9]
    (tmp_path / "t.jsonl").write_text("\n".join(reversed(lines)))
    flags = [f"--pictures={folder / 'p'}", f"--captions={tmp_path / 't.jsonl'}"]
    flags += [f"--to={tmp_path / 'd'}", "--held-out=0.4", "--size"]
    images.run(images.parser().parse_args([*flags, "8"]))
    file = tmp_path / "d" / "valid.captioned"
    texts = [json.loads(line)["text"] for line in file.read_text().splitlines()]
    rows = [line for line in lines if json.loads(line)["caption"] in texts]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    ranks = [f"--workdir={folder / 'clip'}", "--task=retrieval"]
    own = [f"--data={tmp_path / 'own.jsonl'}", f"--pictures={folder / 'p'}"]
    capsys.readouterr()
    assert run(score, *ranks, f"--data={file}") == DONE
    table = capsys.readouterr().out.splitlines()[:-1]
    assert run(score, *ranks, *own) == DONE
    assert capsys.readouterr().out.splitlines()[:-1] == table and len(table) > 2
    shown = [f"--workdir={folder / 'clip'}", f"--data={file}"]
    assert run(show, *shown) == MISTAKE
    assert "numbers of the pictures in" in capsys.readouterr().err
    images.run(images.parser().parse_args([*flags[:2], f"--to={tmp_path / 'e'}"]))
    assert run(score, *ranks, f"--data={tmp_path / 'e/valid.captioned'}") == MISTAKE
    assert "72 x 72 pixels, those of the run 8 x 8" in capsys.readouterr().err


def test_a_run_is_used_without_the_pictures_of_its_training(folder, tmp_path, capsys):
    """As a run that was copied to another machine."""
    shown = [f"--pictures={folder / 'p'}", f"--data={folder / 'table.jsonl'}"]
    uses = [
        (embed, [f"--pictures={folder / 'p'}"], "clip"),
        (embed, ["a red square"], "clip"),
        (score, [*shown, "--task=retrieval"], "picture_retrieval"),
        (show, shown, "vilbert"),
    ]
    found = []
    for folder_name in ("d", "elsewhere"):
        (folder / "d").rename(folder / folder_name)
        try:
            for command, flags, name in uses:
                assert run(command, f"--workdir={folder / name}", *flags) == DONE
        finally:
            (folder / folder_name).rename(folder / "d")
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] and "nearest captions" in found[0]


def test_a_mistake_is_told_before_files_are_read(folder, tmp_path, capsys):
    table = [f"--pictures={folder / 'p'}", f"--data={folder / 'table.tsv'}"]
    clip = f"--workdir={folder / 'clip'}"
    made = [f"--captions={folder / 'table.tsv'}", f"--to={tmp_path}", "--held-out=0"]
    own = "--config.data.valid=" + str(folder / "table.tsv")
    mistakes = {
        "objective clip gives texts no score": (
            score,
            [clip, table[1], "--task=blimp"],
        ),
        "objective image_text predicts no labels": (
            predict,
            [f"--workdir={folder / 'vilbert'}", *table],
        ),
        "give --pictures=P and --data=T": (show, ["--config=experiments/clip.py:tiny"]),
        "above 0 and at most 1": (images, [table[0], *made]),
        "palimpsest images writes such files": (evaluate, [clip, own]),
    }
    for words, (command, flags) in mistakes.items():
        assert run(command, *flags) == MISTAKE
        error = capsys.readouterr().err
        assert words in error and error.count("error: ") == 1, error


def test_a_caption_of_two_pictures_is_right_for_both():
    vectors = np.eye(2)
    model = SimpleNamespace(
        run=SimpleNamespace(objective=SimpleNamespace(picture_vectors=True)),
        encode=lambda texts, normalize: vectors[
            [int(text == "a sea") for text in texts]
        ],
        encode_stored=lambda numbers: vectors[[int(n == 1) for n in numbers]],
    )
    texts, of = ["a star", "a sea", "a star"], [0, 1, 2]
    found = nearest_captions(model, texts, of, [0, 1, 2])
    star, sea = (Guess("a star", 1, True), Guess("a sea", 1, True))
    no_star, no_sea = (each._replace(value=0, is_right=False) for each in (star, sea))
    assert found == [[star, no_sea], [sea, no_star], [star, no_sea]]


def test_other_boxes_are_another_evaluation(folder, tmp_path):
    rows = [json.loads(r) for r in (folder / "table.jsonl").read_text().split("\n")[:3]]
    workdir, table = folder / "picture_retrieval", tmp_path / "own.jsonl"
    found = set()
    for edge in (4, 5):
        boxes = {"boxes": [[0, 0, edge, 9], [edge, 0, 9, 9]]}
        table.write_text("\n".join(json.dumps(row | boxes) for row in rows))
        flags = [f"--data={table}", f"--pictures={folder / 'p'}", "--task=retrieval"]
        assert run(score, f"--workdir={workdir}", *flags) == DONE
        found.add(len([*workdir.glob("evaluations/retrieval-*")]))
    assert len(found) == 2


def test_a_run_of_features_reads_a_store_alone(tmp_path):
    objective = make_objective("image_text", images=RANDOM, regions="features")
    with pytest.raises(UserError, match="leave out --pictures, and give --data=STORE"):
        write_own(tmp_path, tmp_path, [], objective)


CLIP, LABELS = "clip", "picture_classification"


@pytest.mark.parametrize(
    ("command", "name", "flags", "words"),
    [
        (embed, CLIP, ["--pictures={p}/none"], "must be a folder or a zip of pictures"),
        (
            embed,
            CLIP,
            ["--pictures={p}", "a text"],
            "--pictures cannot be combined with",
        ),
        (embed, CLIP, ["--pictures={p}/broken.png"], "broken.png cannot be decoded ("),
        (embed, LABELS, ["--pictures={p}"], "gives them no vectors; these do: clip"),
        (score, CLIP, ["--data={t}"], "--pictures=P must name a folder or a zip"),
        (score, CLIP, ["--data={t}", "--pictures={p}", "--fields=file"], "of captions"),
        (
            score,
            CLIP,
            ["--data={t}", "--pictures={p}", "--fields=f,x"],
            "unknown column 'f'",
        ),
        (
            score,
            CLIP,
            ["--data={t}", "--pictures={p}/in"],
            "there is no picture",
        ),
        (score, CLIP, ["--data={t}", "--label=x"], "--label is not read by"),
        (
            score,
            LABELS,
            ["--data={t}", "--pictures={p}"],
            "needs a run that has",
        ),
        (score, "vilbert", ["--data={t}", "--pictures={p}"], "reads boxes, but no row"),
        (show, "vilbert", ["--data={t}", "--pictures={p}"], "reads boxes, but no row"),
        (predict, LABELS, ["--pictures={p}", "a text"], "must be one picture"),
        (show, CLIP, ["--pictures={p}"], "--data=T must name the table of --pictures"),
        (show, CLIP, ["--pictures={p}", "--data={t}", "--fields=x"], "of captions"),
        (predict, LABELS, ["--pictures={p}", "--data={t}.x"], "no such file or folder"),
    ],
)
def test_a_mistake_gives_one_line(folder, capsys, command, name, flags, words):
    names = {"p": folder / "p", "t": folder / "table.tsv"}
    picture = io.BytesIO()
    Image.new("RGB", (9, 9)).save(picture, "png")
    (folder / "p" / "broken.png").write_bytes(picture.getvalue()[:40])
    task = ["--task=retrieval"] if command is score else []
    flags = [flag.format(**names) for flag in flags]
    assert run(command, f"--workdir={folder / name}", *task, *flags) == MISTAKE
    (folder / "p" / "broken.png").unlink()
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
