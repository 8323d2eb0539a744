"""The page at `/docs`: no script, nothing from elsewhere."""

import html
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["docs_page"]

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#8881;padding:.7rem;overflow-x:auto}code{font-size:.9em}"
    "td,th{text-align:left;padding:.2rem 1rem .2rem 0}:root{color-scheme:light dark}"
)


def docs_page(openapi: Mapping[str, Any]) -> str:
    """Every route with its description and an example."""
    parts = [f"<h1>{_text(openapi['info']['title'])}</h1>"]
    for path, methods in openapi["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_text(path)}</code></h2>")
            parts.append(f"<p>{_text(about.get('description') or about.get('summary', ''))}</p>")
            body = about.get("requestBody", {}).get("content", {}).get("application/json")
            if body and "example" in body:
                parts.append(f"<pre>{_text(json.dumps(body['example'], indent=1))}</pre>")
    return _page("regard: routes", "".join(parts))


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{STYLE}</style>{body}</html>"
    )


def _text(value: Any) -> str:
    return html.escape(str(value))
