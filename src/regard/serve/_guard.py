"""What every request meets first: hosts, keys, limits, draining; and what is noted of it last."""

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from regard.serve._errors import Refusal, explained
from regard.serve._logs import requests
from regard.serve.settings import Limits, Settings

if TYPE_CHECKING:
    from regard.serve._metrics import Metrics

__all__ = ["Gate", "Guard", "noting"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger(__name__)

OPEN = frozenset({"/", "/docs", "/openapi.json", "/health", "/ready"})
"""What needs no key: nothing of it is about models or texts."""
ROUTES = frozenset(
    {*OPEN, "/models", "/metrics", "/predict", "/score", "/align", "/look", "/stream"}
)

LINGER = 1.0
"""Seconds for which the rest of a refused body is read and thrown away."""


class Gate:
    """Whether requests are let in, and how many are inside."""

    def __init__(self) -> None:
        self.draining = False
        self.active = 0
        self.clients: Counter[str] = Counter()


def noting(scope: Scope, **about: Any) -> None:
    """Add to what is logged of a request."""
    scope.setdefault("regard", {}).update(about)


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: Any, settings: Settings, gate: Gate, metrics: "Metrics") -> None:
        self.app, self.settings, self.gate, self.metrics = app, settings, gate, metrics
        self._keys = [key.encode() for key in settings.keys]
        self._hosts = {host.lower() for host in settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        began, number, sent = time.monotonic(), secrets.token_hex(8), {"status": 0, "began": False}
        client = self._client(scope, headers)
        noting(scope, id=number)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.update(status=message["status"], began=True)
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", number.encode()),
                ]
            try:  # who does not read must not hold what others wait for
                async with asyncio.timeout(self.settings.limits.seconds):
                    await send(message)
            except TimeoutError:
                raise Refusal(499, "the client does not read its answer") from None

        entered, body = False, _Body(receive, self.settings.limits, began)
        try:
            self._admit(scope, headers, client)
            if scope["method"] == "POST":
                entered = True
                self.gate.active += 1
                self.gate.clients[client] += 1
                self.metrics.active.inc()
            await self.app(scope, body.receive, sending)
        except Refusal as refusal:
            if not sent["began"]:
                await _refuse(refusal, sending, body)
        except Exception as error:
            log.exception("a request failed", extra={"about": {"id": number}})
            if not sent["began"]:
                await _refuse(explained(error), sending, body)
        finally:
            if entered:
                self.gate.active -= 1
                self.gate.clients[client] -= 1
                self.gate.clients += Counter()  # forgets those that are at zero
                self.metrics.active.dec()
            self._note(scope, client, int(sent["status"]), time.monotonic() - began)

    def _admit(self, scope: Scope, headers: MutableMapping[str, str], client: str) -> None:
        host = headers.get("host", "").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._hosts and name not in self._hosts:
            raise Refusal(
                421, "this server is not called so; start it with --host-name to allow it"
            )
        if self._keys and scope["path"] not in OPEN and not self._known(headers):
            raise Refusal(401, "expected a known key: Authorization: Bearer KEY")
        if scope["method"] != "POST":
            return
        if headers.get("sec-fetch-site") == "cross-site":  # a browser says so, of its own accord
            raise Refusal(403, "a page of another site asks: only pages of this server may")
        if self.gate.draining:
            raise Refusal(503, "the server is stopping; ask again soon", 1)
        limits = self.settings.limits
        if self.gate.clients[client] >= limits.concurrency:
            raise Refusal(
                429,
                f"{limits.concurrency} requests of this client are being answered, the most that"
                " may be at once",
                1,
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > limits.body):
            raise _too_large(limits)

    def _known(self, headers: MutableMapping[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        own = given.strip().encode("latin-1", "replace") if kind.lower() == "bearer" else b""
        known = False
        for key in self._keys:  # every one, so that time says nothing
            known |= hmac.compare_digest(key, own)
        return known

    def _client(self, scope: Scope, headers: MutableMapping[str, str]) -> str:
        """Whose requests count together: those of a key, else of an address."""
        if self._keys and self._known(headers):
            given = headers["authorization"].partition(" ")[2].strip()
            place = [key.decode("latin-1") for key in self._keys].index(given)
            return f"key {place + 1}"
        return str((scope.get("client") or ("?",))[0])

    def _note(self, scope: Scope, client: str, status: int, seconds: float) -> None:
        route = scope["path"] if scope["path"] in ROUTES else "other"
        about = dict(scope.get("regard", {}))
        self.metrics.requests.labels(route, about.get("model", ""), str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        level = logging.DEBUG if route in ("/health", "/ready", "/metrics") else logging.INFO
        kept = {"method": scope["method"], "route": route, "status": status or 499}
        requests.log(
            level,
            "request",
            extra={"about": {**about, **kept, "ms": round(seconds * 1000, 1), "client": client}},
        )


class _Body:
    """A request's body: no more bytes and no longer than a request may take."""

    def __init__(self, receive: Receive, limits: Limits, began: float) -> None:
        self._receive, self._limits, self._began = receive, limits, began
        self._total, self.whole = 0, False

    async def receive(self) -> Message:
        """The next part, as ASGI has it.

        Raises:
            Refusal: it is too large, or too slow.
        """
        if self.whole:  # nothing but the client's leaving can come
            return await self._receive()
        left = self._began + self._limits.seconds - time.monotonic()
        try:
            message = await asyncio.wait_for(self._next(), max(left, 0.001))
        except TimeoutError:
            raise Refusal(
                408, f"the body did not come within {self._limits.seconds:g} seconds"
            ) from None
        if self._total > self._limits.body:
            raise _too_large(self._limits)
        return message

    async def drop(self) -> None:
        """Read what is left, for a moment.

        A connection that is closed with bytes unread is reset, and its client may lose the answer.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not self.whole:
                    await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._total += len(message.get("body", b""))
        self.whole = not message.get("more_body", False)  # a client that has left sends no more
        return message


def _too_large(limits: Limits) -> Refusal:
    return Refusal(413, f"the body has more than {limits.body:,} bytes; send less at once")


async def _refuse(refusal: Refusal, send: Send, asked: _Body) -> None:
    body = json.dumps(refusal.body, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(k.lower().encode(), v.encode()) for k, v in refusal.headers.items()]
    unread = refusal.status in (408, 413)  # the rest of the body is not looked at
    if unread:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": unread})
    if unread:
        await asked.drop()
        await send({"type": "http.response.body", "body": b""})
