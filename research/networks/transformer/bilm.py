"""A biLM: a transformer per direction, with shared embeddings and readout."""

from flax import linen as nn

from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.options import TransformerOptions as Options


class BiLM(nn.Module):
    """A biLM: a stack per direction, with the same embeddings and readout.

    Shared parameters belong to `forward`. Each direction has the methods of a
    transformer (Peters et al. 2018, section 3.1).

    Attributes:
      size: entries of the vocabulary.
      pattern: the objective's promise about rank and reach, in both directions.
      transform: the readout has BERT's layers before the table.
    """

    options: Options
    size: int
    pattern: str = "general"
    transform: bool = False

    def setup(self):
        fields = (self.options, self.size, self.pattern, self.transform)
        self.forward = Transformer(*fields)
        token, embedding = self.forward.embeddings()
        self.backward = Transformer(
            *fields,
            shared_token=token,
            shared_embedding=embedding,
            shared_output=self.forward.output,
        )
