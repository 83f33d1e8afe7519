"""A wrong flag or file of the commands that read files is one line that names it."""

import shlex

import pytest

from launch.commands import images, link, predict, show, similarity
from research.contract.errors import UserError

FILES = {
    "t.txt": "Paris is old.\n",
    "t.csv": "a,b\nParis,Rome\n",
    "none.txt": "",
    "none.csv": "",
    "n.tsv": "paris\tParis\nrome\tRome\n",
    "v.txt": "paris 1 2\nrome 2 1\n",
    "bytes": b"\xff\xfe\x80",
    "run/checkpoints/20/x": "",
    "run/config.json": "{}",
    "L/names.tsv": "paris\tParis\n",
    "L/texts.linked": '{"text": "Paris", "links": []}\n',
}
LINK = "--texts=t.txt --names=n.tsv --vectors=v.txt --to=D"
PAIRS = "--workdir=run --data=t.csv --fields=a,b"
CASES = [
    (
        link,
        "--texts=no.txt --names=n.tsv --vectors=v.txt --to=D",
        "--texts is 'no.txt': no file",
    ),
    (
        link,
        "--texts=t.csv --names=n.tsv --vectors=v.txt --to=D",
        "t.csv has columns; gi",
    ),
    (link, "--texts=none.txt --names=n.tsv --vectors=v.txt --to=D", "has no texts"),
    (
        link,
        "--texts=t.txt --names=no --graph=n.tsv --to=D",
        "n.tsv:1: a triple is head",
    ),
    (
        link,
        "--texts=t.txt --names=n.tsv --graph=no --to=D",
        "--graph=no cannot be read",
    ),
    (
        link,
        "--texts=t.txt --names=no --vectors=v.txt --to=D",
        "--names=no cannot be rea",
    ),
    (link, f"{LINK} --stop=no", "--stop=no cannot be read (No such file"),
    (link, f"{LINK} --stop=bytes", "--stop=bytes cannot be read ('utf-8'"),
    (link, f"{LINK} --steps=3", "--steps is not read with --vectors, which replaces"),
    (link, f"{LINK} --min-characters=9", "or have fewer than --min-characters=9"),
    (link, f"{LINK}/x".replace("D/x", "t.txt"), "--to=t.txt"),
    (
        link,
        LINK.replace("n.tsv", "L/names.tsv").replace("D", "L"),
        "is --names, and wou",
    ),
    (
        link,
        LINK.replace("t.txt", "L/texts.linked").replace("D", "L"),
        "is --texts, and",
    ),
    (predict, "--workdir=run x --fields=a", "--fields=a needs --data; leave it out"),
    (
        predict,
        "--workdir=run --data=t.csv --to=t.csv",
        "--to=t.csv is --data, and would",
    ),
    (predict, "--workdir=run x --to=run/config.json", "is a file of the run in"),
    (similarity, f"{PAIRS} --to=t.csv", "--to=t.csv is --data, and would replace it"),
    (similarity, "--workdir=run x ' '", "' ' is blank; give two texts"),
    (
        similarity,
        "--workdir=run --data=t.csv",
        "--data=t.csv: t.csv has columns; name those to read, as in --fields=",
    ),
    (similarity, f"{PAIRS} --label=c", "--label=c: no row of t.csv has it"),
    (similarity, PAIRS.replace("t.csv", "none.csv"), "--data=none.csv has no texts"),
    (
        show,
        "--keys --workdir=run",
        "--keys reads only --config; leave out --workdir",
    ),
    (
        images,
        "--pictures=L --captions=t.csv --to=D --caption-column=",
        "--file-column and --caption-column must name columns",
    ),
]


@pytest.mark.parametrize(("command", "flags", "words"), CASES)
def test_a_wrong_input_is_named_and_nothing_is_written(
    command, flags, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as error:
        command.run(command.parser().parse_args(shlex.split(flags)))
    assert words in str(error.value) and "data." not in str(error.value)
    kept = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert kept == {*FILES}
    assert (tmp_path / "L/names.tsv").read_text() == FILES["L/names.tsv"]
