"""A generator that says what it heard, and small folders of data."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.protocols import BOS, PAD, Decoding, Encoded, Output, lengths_of


class Echo(nn.Module):
    """The next token is the source's at that place: logits `sure` for it and 0 for the rest."""

    def __init__(self, source: int, target: int, sure: float = 20.0) -> None:
        super().__init__()
        self.source_vocab_size, self.target_vocab_size = source, target
        self.normalized = False
        self.sure = nn.Parameter(torch.tensor(sure))
        self.calls: list[list[int]] = []

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        lengths = lengths_of(source, lengths)
        self.calls.append(lengths.tolist())
        return Encoded(source[..., None].float(), lengths)

    def start(self, encoded: Encoded) -> Decoding:
        source = encoded.states[..., 0].long()
        return Decoding({"source": source}, {"read": source.new_full((len(source), 1), BOS)})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        source = decoding.memories["source"]
        at = min(decoding.step, source.shape[1] - 1)
        logits = self.sure * F.one_hot(source[:, at], self.target_vocab_size)  # (B, V)
        every = logits[:, None].expand(*tokens.shape, self.target_vocab_size)
        return every, decoding.advance(read=tokens)

    def forward(self, source: Tensor, target_in: Tensor, lengths: Tensor | None = None) -> Output:
        width = target_in.shape[1]
        heard = F.pad(source, (0, max(0, width - source.shape[1])), value=PAD)[:, :width]
        return Output(self.sure * F.one_hot(heard, self.target_vocab_size).float())


def write(folder: Path, **files: list[tuple[str, ...]]) -> Path:
    """TSV files `train`, `dev`, `test` with the heading `de en`."""
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        lines = [("de", "en"), *rows]
        (folder / f"{name}.tsv").write_text("".join("\t".join(r) + "\n" for r in lines))
    return folder
