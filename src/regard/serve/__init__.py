"""Models over HTTP: `regard serve`, and the `Client` that speaks to it."""

from regard.serve._client import AsyncClient as AsyncClient
from regard.serve._client import Client as Client
from regard.serve._errors import ServerError as ServerError

__all__ = ["AsyncClient", "Client", "ServerError"]
