"""An encoder's states on our attention, without padding, against transformers with SDPA, in turns.

python benchmarks/encoders.py FOLDER [--threads 1] [--texts FILE]

FOLDER is an encoder (`regard.encoders`). Texts have mixed lengths and come as they are: random ones
of 4 to 250 pieces, or the lines of a file, 32 at once for transformers (its batches are padded),
all at once for us, tokenizing included on both sides. `sorted` gives transformers batches of like
lengths. Only the last layer is asked for.
"""

import argparse
from pathlib import Path

import torch
from paired import machine, paired, row
from transformers import AutoModel, AutoTokenizer

from regard.encoders import open_encoder

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--texts", type=Path, help="its lines in the place of random texts")
parser.add_argument("--count", type=int, default=256)
asked = parser.parse_args()
torch.set_num_threads(asked.threads)
torch.manual_seed(0)

encoder = open_encoder(asked.folder)
tokenizer = AutoTokenizer.from_pretrained(asked.folder, local_files_only=True)
model = AutoModel.from_pretrained(asked.folder, local_files_only=True, attn_implementation="sdpa")
model.eval()
tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True
if asked.texts:
    lines = [one for line in asked.texts.read_text("utf-8").splitlines() if (one := line.strip())]
    step = max(len(lines) // asked.count, 1)
    texts = lines[::step][: asked.count]
else:
    names = [name for name in encoder.tokenizer.get_vocab() if name.isalpha()]
    sizes = torch.exp(torch.empty(asked.count).uniform_(1.4, 5.5)).long().tolist()
    texts = [
        " ".join(names[i] for i in torch.randint(len(names), (size,)).tolist()) for size in sizes
    ]


def ours() -> list[torch.Tensor]:
    """The states of all pieces of each text."""
    return [torch.from_numpy(one.states[:, 0]) for one in encoder.states(texts)]


@torch.inference_mode()
def theirs(order: list[int]) -> list[torch.Tensor]:
    """The same from transformers, 32 texts at once in this order."""
    found = [torch.empty(0)] * len(texts)
    most = encoder.stack.shape.longest
    for start in range(0, len(order), 32):
        places = order[start : start + 32]
        batch = tokenizer(
            [texts[i] for i in places],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=most,
        )
        states = model(**batch).last_hidden_state
        for place, own, mask in zip(places, states, batch["attention_mask"], strict=True):
            found[place] = own[1 : int(mask.sum()) - 1]
    return found


as_given = list(range(len(texts)))
by_length = sorted(as_given, key=lambda i: len(texts[i]))
pairs = zip(ours(), theirs(as_given), strict=True)
error = max(float((a - b).abs().max()) for a, b in pairs if len(a) == len(b) and len(a))
row(**machine(), encoder=encoder.name, texts=len(texts), from_file=bool(asked.texts), error=error)
for name, order in (("as given", as_given), ("sorted", by_length)):
    row(id="encoder", order=name, ratio=paired(ours, lambda order=order: theirs(order), 5))
