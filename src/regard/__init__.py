"""Train, use and look into models with attention: one operation, one paper a file.

The names below are loaded at their first use: `import regard` alone imports no torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard import catalog as catalog
    from regard.attention import Attention as Attention
    from regard.attention import Memory as Memory
    from regard.attention import MultiHead as MultiHead
    from regard.attention import attend as attend
    from regard.attention import scope as scope
    from regard.loading import load as load
    from regard.watching.inspector import Inspector as Inspector
    from regard.watching.viewing import view as view
    from regard.watching.watcher import watch as watch

__version__ = "0.2.0"

__all__ = [
    "Attention",
    "Inspector",
    "Memory",
    "MultiHead",
    "__version__",
    "attend",
    "catalog",
    "load",
    "scope",
    "view",
    "watch",
]

_HOMES = {
    "Attention": "regard.attention",
    "Memory": "regard.attention",
    "MultiHead": "regard.attention",
    "attend": "regard.attention",
    "scope": "regard.attention",
    "watch": "regard.watching.watcher",
    "load": "regard.loading",
    "view": "regard.watching.viewing",
    "Inspector": "regard.watching.inspector",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name from its home, once."""
        if name == "catalog":
            return importlib.import_module("regard.catalog")
        if name not in _HOMES:
            raise AttributeError(f"module 'regard' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
