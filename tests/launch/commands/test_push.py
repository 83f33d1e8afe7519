"""An export is uploaded to the Hub, and read back from it."""

import numpy as np
import pytest
from huggingface_hub import ModelCard

from launch.commands import export
from research.contract.errors import UserError
from research.interop.huggingface.folder import Tensors
from research.interop.huggingface.restore import find_folder
from tests.testing.hub import running_hub
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = write_corpus(tmp_path_factory.mktemp("push"))
    bert = {"model.norm_placement": "post", "model.norm_epsilon": 1e-12}
    config = tiny_config(folder, "mlm", **bert, **{"data.vocabulary": "bytebpe"})
    return save_untrained(folder / "run", config)[0]


def run(*flags):
    export.run(export.parser().parse_args([*map(str, flags)]))


def test_what_is_pushed_is_what_is_read_back(workdir, tmp_path, monkeypatch, capsys):
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        flags = "--workdir", workdir, "--push=org/model", "--license=mit"
        run(*flags, "--to", tmp_path / "to", "--language=en,de")
        assert f"main: {hub.url}/org/model/commit/" in capsys.readouterr().out
        run(*flags, "--all")
        branches = hub.repositories["org/model"]
        assert branches.keys() == {"main", "step_3"}
        folder = find_folder("hf:org/model")
    pushed, local = Tensors(folder), Tensors(tmp_path / "to")
    assert pushed.keys() == local.keys()
    assert all(np.array_equal(pushed[name], local[name]) for name in pushed)
    head = ModelCard.load(tmp_path / "to" / "README.md").data
    assert (head.license, head.language) == ("mit", ["en", "de"])
    assert head.pipeline_tag == "fill-mask"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--push=org/model"], r"--push=org/model: .*HF_TOKEN or hf auth login"),
        (["--push=model"], r"--push must be ORG/NAME, got 'model'"),
        (["--push=org/a b"], r"--push=org/a b: "),
        ([], r"give --to=FOLDER, --push=ORG/NAME, or both"),
    ],
)
def test_what_cannot_be_pushed_is_one_line(workdir, monkeypatch, flags, said):
    with running_hub(monkeypatch, workdir / "cache"):
        monkeypatch.setenv("HF_TOKEN", "hf_wrong")
        with pytest.raises(UserError, match=said) as caught:
            run("--workdir", workdir, *flags)
    assert "\n" not in str(caught.value)
