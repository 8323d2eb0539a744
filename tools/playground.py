"""Take the screenshot of docs/howto/serve.md (needs chromium and playwright)."""

import shutil
import subprocess
import sys
from pathlib import Path

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
MODELS = ["de-en-small", "movie-reviews-small", "roles-small", "aspects-small"]
PORT = 8799


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    path = Path(__file__).parents[1] / "docs" / "images" / "playground.png"
    address = f"http://127.0.0.1:{PORT}"
    command = [sys.executable, "-m", "regard", "serve", *MODELS, "--port", str(PORT)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        next(line for line in server.stderr if '"serving"' in line)
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            tab = browser.new_page(viewport={"width": 1100, "height": 1030})
            tab.goto(address)
            tab.locator("#examples button").nth(1).click()
            tab.keyboard.press("Control+Enter")
            tab.locator("#status", has_text="Done").wait_for()
            tab.click("#look-page")
            tab.frame_locator("iframe").locator("html[data-drawn]").wait_for()
            tab.wait_for_timeout(300)
            tab.evaluate("() => scrollTo(0, 0)")
            tab.mouse.move(0, 0)
            tab.screenshot(path=path)
            browser.close()
        image = Image.open(path).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE)
        image.save(path, optimize=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
