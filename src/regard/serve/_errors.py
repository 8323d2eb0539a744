"""What a request is refused with: a status, one sentence, and when to come again."""

from regard.errors import RegardError, RequestError

__all__ = ["Refusal", "ServerError", "busy", "explained"]


class Refusal(RegardError):
    """A request is not answered.

    Args:
        status: of HTTP.
        sentence: what was expected and what came.
        retry: seconds after which it may come again.
    """

    def __init__(self, status: int, sentence: str, retry: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry = status, retry

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` and the scheme of keys, where they belong."""
        found = {} if self.retry is None else {"Retry-After": str(self.retry)}
        return {**found, "WWW-Authenticate": "Bearer"} if self.status == 401 else found

    @property
    def body(self) -> dict[str, str]:
        """As JSON."""
        return {"error": str(self)}


class ServerError(RegardError):
    """The server refused: its sentence, the `status` of HTTP, the seconds to wait (`retry`)."""

    def __init__(self, status: int, sentence: str, retry: str | None = None) -> None:
        super().__init__(sentence)
        self.status, self.retry = status, None if retry is None else float(retry)


def busy(sentence: str, seconds: float = 1.0) -> Refusal:
    """429: come again after this many seconds."""
    return Refusal(429, sentence, max(1, round(seconds)))


def explained(error: BaseException) -> Refusal:
    """Any failure as a refusal; the particulars of what was not foreseen stay in the log."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestError):
        return Refusal(422, str(error))
    if isinstance(error, TimeoutError):
        return Refusal(504, "the time for a request is over; send less at once, or ask again", 1)
    if isinstance(error, MemoryError):
        return Refusal(413, "there is not enough memory for this request; send less at once")
    if isinstance(error, RegardError):
        return Refusal(500, str(error))
    return Refusal(500, "something went wrong in the server; its log has the particulars")
