"""Logs as JSON lines on standard error; texts of requests are in them only where that is asked."""

import json
import logging
import os
import sys
import time
from typing import Any

__all__ = ["JsonLines", "requests", "start_logging"]

requests = logging.getLogger("regard.serve.requests")
"""A record a request; `about` has its particulars."""


class JsonLines(logging.Formatter):
    """One object a record: time, level, process, message, and what the record has beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """As one line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        found: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "process": os.getpid(),
            "message": record.getMessage(),
        }
        found.update(getattr(record, "about", {}))
        if record.exc_info:
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False, default=str)


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more; what is logged must still be done
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """There is nowhere left to say it."""


def start_logging(level: int = logging.INFO) -> None:
    """Send everything that regard and uvicorn say to standard error as JSON lines."""
    handler = _Stderr()
    handler.setFormatter(JsonLines())
    for name in ("regard", "uvicorn"):
        one = logging.getLogger(name)
        one.handlers[:] = [handler]
        one.propagate = False
        one.setLevel(level if name == "regard" else max(level, logging.WARNING))
