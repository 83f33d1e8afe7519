"""The families that are known, by the `model_type` of Hugging Face's config."""

from collections.abc import Mapping
from typing import Any

from research.checkpoints.huggingface import decoders, encoder_decoders, encoders
from research.checkpoints.huggingface.family import Family
from research.errors import UserError

FAMILIES = {
    family.model_type: family
    for family in (
        encoders.BERT,
        encoders.ROBERTA,
        encoders.XLM_ROBERTA,
        encoders.ALBERT,
        encoders.ELECTRA,
        decoders.XLNET,
        decoders.GPT,
        decoders.GPT2,
        decoders.LLAMA,
        encoder_decoders.T5,
        encoder_decoders.BART,
    )
}


def family_of(config: Mapping[str, Any], where: Any) -> Family:
    """The family of a config.json.

    Raises:
      UserError: it is of no family that is known.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise UserError(
            f"{where} is a model of type {model_type!r}, which has no counterpart "
            f"here; known: {', '.join(FAMILIES)}"
        )
    return FAMILIES[model_type]
