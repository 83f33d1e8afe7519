"""What ours does where no config key says so: the guards of rows `unmodelled`."""

from tests.fidelity.guards import (
    batches,
    cove,
    cvt,
    diffusion,
    distillation,
    elmo,
    gpt_bert,
    images,
    knowledge,
    networks,
    optimizers,
    texts,
    ulmfit,
    vectors,
    windows,
    xnlg,
)

__all__ = [
    "batches",
    "cove",
    "cvt",
    "diffusion",
    "distillation",
    "elmo",
    "gpt_bert",
    "images",
    "knowledge",
    "networks",
    "optimizers",
    "texts",
    "ulmfit",
    "vectors",
    "windows",
    "xnlg",
]
