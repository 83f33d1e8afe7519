"""A learned vector for each position, added to embeddings (Devlin et al. 2019)."""

from dataclasses import dataclass

from research.contract.errors import UserError
from research.networks.shared.dense import normal
from research.networks.shared.embeddings import lookup, table_std
from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """A table with a row for each of `model.max_length` positions."""

    learns_positions = True

    def max_positions(self, options):
        return options.max_length

    def embed(self, embedding, x_BLE, position_BL, length):
        options = embedding.options
        if length > options.max_length:
            raise UserError(
                f"model.max_length is {options.max_length}, but the network reads "
                f"{length} positions (data.length, and what the objective adds); "
                "it must be at least that"
            )
        std = 0.01 if options.init == "gpt2" else table_std(options)
        shape = (options.max_length, x_BLE.shape[-1])
        table = embedding.param("position", normal(options, std, None, "embed"), shape)
        return x_BLE + lookup(table, position_BL)
