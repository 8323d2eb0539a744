"""Take the screenshots of README.md and docs/look.md (needs chromium and playwright)."""

import shutil
import sys
import tempfile
from pathlib import Path

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
TEXT = "Klicken Sie auf die Schaltfläche, um die Datei zu speichern."
SHOTS = {
    "page": ("", "light"),  # of README.md
    "matrix": ("words=1&row=2", "light"),
    "lines": ("view=lines&at=0", "light"),
    "heads": ("view=heads&sort=-previous", "dark"),
    "text": ("view=text&at=5&row=4&head=1", "light"),
    "compare": ("view=compare&a=0.1.mean&b=1.1.mean", "light"),
    "curves": ("view=curves&at=1", "dark"),
}
"""For each: the address behind #, and the theme."""


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from regard.cli.app import main as regard

    there = Path(__file__).parents[1] / "docs" / "images"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page = Path(folder) / "page.html"
        if regard(["look", "de-en-small", TEXT, "-o", str(page)]):
            sys.exit(1)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, (address, theme) in SHOTS.items():
            context = browser.new_context(
                offline=True, color_scheme=theme, viewport={"width": 980, "height": 600}
            )
            tab = context.new_page()
            tab.goto(f"{page.as_uri()}#{address}")
            tab.wait_for_selector("html[data-drawn]", timeout=60_000)
            tab.wait_for_timeout(200)
            path = there / f"look-{name}.png"
            tab.screenshot(path=path)
            image = Image.open(path).convert("RGB")
            if name != "page":  # 256 colors lose its palest cells
                image = image.quantize(256, Image.Quantize.FASTOCTREE)
            image.save(path, optimize=True)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
