"""prepare: cached data, saved batches, shards on a backend, error messages."""

import json
import shutil

import pytest
from etils import epath

from launch.cli import main
from launch.commands.prepare import parser, run


@pytest.fixture
def prepare(tmp_path, capsys):
    """prepare(*flags) -> exit code, stdout, stderr."""
    lines = [{"text": f"a text of number {n} " * (1 + n % 7)} for n in range(200)]
    file = tmp_path / "text.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))

    def prepare(*flags):
        values = {
            "data.corpus": file,
            "data.cache_dir": tmp_path / "cache",
            "data.held_out": 0.1,
            "data.vocabulary": "bytebpe",
            "data.vocabulary_size": 380,
            "data.sentinels": 10,
            "data.length": 16,
            "train.batch": 4,
        }
        argv = ["--config=experiments/mlm.py"]
        argv += [f"--config.{key}={value}" for key, value in values.items()]
        with pytest.raises(SystemExit) as stop:
            main(run, parser(), [*argv, *flags])
        return stop.value.code, *capsys.readouterr()

    return prepare


def test_a_second_call_builds_nothing(prepare, tmp_path):
    code, out, _ = prepare()
    assert code == 0
    assert "train/skipped 0" in out.splitlines()
    built = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.bin")}
    built |= {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    assert built
    assert prepare()[1] == out
    assert all(path.stat().st_mtime_ns == time for path, time in built.items())


def test_the_test_split_of_a_task_is_built(prepare, tmp_path):
    rows = "".join(f"a text of number {n}\t{n % 2}\n" for n in range(40))
    flags = ["--config=experiments/finetune.py"]
    flags += ["--config.data.fields=0", "--config.data.label=1"]
    flags.append("--config.data.vocabulary_size=272")
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text(rows + f"{split}\t0\n")
        flags.append(f"--config.data.{split}={tmp_path}/{split}.tsv")
    code, _, error = prepare(*flags)
    assert code == 0, error
    built = {*tmp_path.rglob("*.bin"), *tmp_path.rglob("*.npy")}
    code, out, error = prepare(*flags, "--config.data.eval_split=test")
    assert code == 0 and "eval/documents 41" in out, error
    assert {*tmp_path.rglob("*.bin"), *tmp_path.rglob("*.npy")} == built


def test_batches_are_saved_and_read_again(prepare, tmp_path):
    folder = tmp_path / "batches"
    code, out, _ = prepare("--batches=3", f"--output={folder}")
    assert code == 0
    assert f"--config.data.task={folder}" in out
    assert len(list(epath.Path(folder).glob("train-*.npz"))) == 3
    code, again, _ = prepare(
        f"--config.data.task={folder}",
        "--config.train.steps=3",
        "--config.data.corpus=nowhere",
    )
    assert code == 0
    assert again.splitlines() == out.splitlines()[:-1]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--batches=3"], "--output"),
        (["--output=x"], "--batches"),
        (["--batches=0", "--output=x"], "at least 1"),
        (["--shards=2"], "--workdir"),
        (["--workdir=x"], "is for the logs of --shards=N"),
        (
            ["--shards=10000", "--workdir=x"],
            "--shards: must be a whole number from 1 to",
        ),
        (["--shards=2", "--workdir=x", "--batches=1", "--output=y"], "one process"),
        (["--shards=2", "--workdir=x", "--on=slurm"], "PARTITION"),
        (["--config.data.corpus=no/such/*.txt"], "data.corpus"),
        (["--config.data.eval_split=dev"], "valid"),
        (["--config.data.reader=tfds"], "seqio"),
        (["--config.data.stride=-1"], "data.stride"),
        (["--config.data.length=0"], "data.length"),
    ],
)
def test_an_error_is_one_line(prepare, flags, message):
    code, _, err = prepare(*flags)
    assert code == 2
    assert message in err and err.startswith("error: ") and err.count("\n") == 1


def test_shards_on_a_backend_build_the_same_as_one_process(prepare, tmp_path):
    code, alone, _ = prepare()
    assert code == 0
    one = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.bin")}
    shutil.rmtree(tmp_path / "cache")
    flags = ["--shards=2", "--parallel=2", f"--workdir={tmp_path / 'logs'}"]
    code, out, _ = prepare(*flags)
    assert code == 0
    assert out.splitlines() == ["2 of 2 shards have a result", *alone.splitlines()]
    assert one == {path: path.read_bytes() for path in one}
    assert len(list((tmp_path / "logs").glob("shard-*/log.txt"))) == 2


@pytest.mark.parametrize("file", ["config.json", "sweep.json"])
@pytest.mark.parametrize("flags", [[], ["--shards=1"]])
def test_the_folder_of_a_run_is_left_alone(prepare, tmp_path, file, flags):
    (tmp_path / "run").mkdir()
    for name in (file, "result.json"):
        (tmp_path / "run" / name).write_text("{}")
    code, _, err = prepare(*flags, f"--workdir={tmp_path / 'run'}")
    assert code == 2 and err.count("\n") == 1
    assert {path.name for path in (tmp_path / "run").iterdir()} == {file, "result.json"}
    assert (tmp_path / "run" / "result.json").read_text() == "{}"


def test_an_error_of_a_shard_is_reported(prepare, tmp_path):
    flags = ["--shards=1", f"--workdir={tmp_path / 'logs'}"]
    code, _, err = prepare(*flags, "--config.data.corpus=nowhere/*.txt")
    assert code == 1
    assert "data.corpus is 'nowhere/*.txt'" in err.splitlines()[-1]
    # Reported when it fails and at the end.
    assert err.count("shard 1 of 1: failed with exit code 2") == 2
