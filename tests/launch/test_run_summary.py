"""What is printed at the end of a run."""

import pytest

from launch.run_summary import summary_lines
from research.objectives import make_objective

RESULT = {
    "steps": 10,
    "tokens_seen": 5000,
    "train_seconds": 4.0,
    "compile_seconds": 3.0,
    "wall_seconds": 12.0,
    "flops_to": [(5, 4e9), (10, 1e10)],
}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("mlm", 'fill --workdir=runs/a "The [MASK]'),
        ("lm", 'generate --workdir=runs/a "The"'),
        ("token_classification", "predict --workdir=runs/a "),
        ("plm", "generate"),
        ("electra", "fill"),
        ("clip", "show --workdir=runs/a --pictures=... --data=... | palimpsest score"),
        ("transe", "vectors --workdir=runs/a --to="),
        ("question_answering", 'predict --workdir=runs/a "a question" "its context"'),
        ("sequence_classification", 'predict --workdir=runs/a "a text" "another"'),
    ],
)
def test_the_commands_that_use_a_run(name, command):
    done, following = summary_lines("runs/a", RESULT, make_objective(name), 2)
    assert done == (
        "runs/a: 10 steps, 5,000 tokens, 1,250 tokens/s in steps; 12 s: 4 in steps, 3 "
        "compiling, 5 for data, evaluations and checkpoints"
    )
    assert following.startswith(f"next: palimpsest {command}")


def test_a_run_that_was_resumed_has_no_parts():
    result = RESULT | {"train_seconds": 40.0}
    done, _ = summary_lines("runs/a", result, make_objective("lm"))
    assert done == "runs/a: 10 steps, 5,000 tokens, 125 tokens/s in steps"


def test_what_has_learnt_little_is_shown_by_samples():
    _, following = summary_lines("R", RESULT, make_objective("lm"), draws=True)
    assert 'generate --workdir=R "The" --method=sample |' in following
    blocks = make_objective("masked_diffusion", block_size=4)  # which always draws
    _, following = summary_lines("R", RESULT, blocks, draws=True)
    assert 'generate --workdir=R "The" |' in following
