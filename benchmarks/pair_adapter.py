"""regard beside its peers: what `shared/peers/pair.py` asks of an adapter.

Copied there as `adapters/regard_own.py`, with a line in `adapters/__init__.py` and one in
`pair.VENV`; see `benchmarks/README.md`. Models are built with random weights of the sizes that all
peers get; decoding goes through `regard.decode`, as `regard predict` does.
"""

import torch
from common import Base  # of shared/peers

from regard.decode import Beam
from regard.decode.program.recordings import decoder_in_c
from regard.layers.deferred_logits import deferring
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy
from regard.models.transformer import Transformer
from regard.protocols import PAD


class Regard(Base):
    """The Transformer of the house, float32."""

    name = "regard"
    modules = ("regard",)
    precision = "float32"
    engine = None
    """Its decoder in C, kept as the other toolkits keep theirs."""

    def build(self):
        """Random weights."""
        from regard.system.heap import keep_freed_memory

        keep_freed_memory()  # as `regard train` does
        torch.manual_seed(0)
        self.model = self.make(self.size)
        # The settings of `common.adam`, in one pass, as `regard train` does it.
        self.opt = torch.optim.Adam(
            self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def make(self, s):
        """The sizes of `common.SIZES`."""
        return Transformer(
            s.vocab, s.vocab, dim=s.d, heads=s.heads, layers=s.layers, ffn_dim=s.ffn,
            dropout=s.dropout, attention={"dropout": s.dropout}, activation_dropout=s.dropout,
        )  # fmt: skip

    def loss(self, batch):
        """Label-smoothed cross-entropy per token, dropout wherever the baseline has it."""
        given, gold = batch["tgt"][:, :-1], batch["tgt"][:, 1:]
        given = given.masked_fill(gold == PAD, PAD)  # as the house's batches are
        with deferring():  # as the task does
            logits = self.model(batch["src"], given, batch["src_len"]).logits
        self.engine = None  # the weights will change
        loss = smoothed_cross_entropy(logits, gold, self.size.smoothing)
        return loss / batch["ntok"]

    @torch.inference_mode()
    def decode(self, batch, beam, length):
        """Exactly `length` tokens a sentence, the last of which may be the end."""
        search = Beam(
            beam_size=beam,
            min_length=length,
            max_ratio=0.0,
            max_extra=length,
            precision=self.precision,
        )
        if self.engine is None:
            given = batch["src"], batch["src_len"]
            self.engine = decoder_in_c(self.model.eval(), *given, self.precision)
        found = search(self.engine, batch["src"], batch["src_len"])
        return [hypotheses[0].tokens for hypotheses in found]


class RegardBf16(Regard):
    """Decoder weights in bfloat16."""

    name = "regard-bf16"
    precision = "bfloat16"
    trains = False


class RegardInt8(Regard):
    """Decoder weights, and rows on their way, in bytes."""

    name = "regard-int8"
    precision = "int8"
    trains = False
