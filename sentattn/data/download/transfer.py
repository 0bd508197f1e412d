"""One file over HTTP, through whatever befalls the connection: what has come is kept, and the rest is asked for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sentattn.data.building import Progress

if TYPE_CHECKING:
    from requests import RequestException, Response

PIECE = 1 << 16
MEGABYTE = 10**6
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP answers that may be others a moment later."""


class Patience(NamedTuple):
    """How long a server is waited for, in seconds.

    Attributes:
        connect: For the connection.
        silence: For the next byte. However slowly bytes come, as long as they come there is no limit.
        waits: Before each further try.
    """

    connect: float = 10.0
    silence: float = 30.0
    waits: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)


class TransferError(Exception):
    """A transfer that cannot succeed; the message says why, as the end of a sentence."""


class PassingError(TransferError):
    """A transfer that may succeed when it is tried again."""


class OtherFileError(TransferError):
    """The server has another file under this address."""


class Transfer:
    """Downloads a file for `pooch`, from where an earlier transfer was cut.

    Args:
        part: Where what has come is kept until it is whole.
        size: Number of bytes of the whole file.
        stage: What is told to be done.
        progress: Is told how many megabytes have come.
        patience: How long a server is waited for.
    """

    def __init__(self, *, part: Path, size: int, stage: str, progress: Progress, patience: Patience) -> None:
        self._part = part
        self._size = size
        self._stage = stage
        self._progress = progress
        self._patience = patience
        self._answered = False

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Brings the file at `url` to `output_file`, in the folder of the part.

        Raises:
            TransferError: If it cannot be had, after all tries; the part stays.
            OSError: If it cannot be written.
        """
        for wait in (*self._patience.waits, None):
            try:
                self._continue(url)
                break
            except PassingError as error:
                if wait is None:
                    raise
                self._progress(f"{self._stage}: {error}; trying again in {wait:g} s", 0, None)
                time.sleep(wait)
        os.replace(self._part, output_file)

    def _continue(self, url: str) -> None:
        """Asks once for what is missing."""
        done = self._part.stat().st_size if self._part.exists() else 0
        if done == self._size:
            return
        with self._ask(url, done) as response:
            done = self._require_right(response, done)
            with self._part.open("ab" if done else "wb") as file:
                for piece in _pieces(response):
                    done += file.write(piece)
                    if done > self._size:
                        raise OtherFileError(f"it is longer than {self._size:,} bytes")
                    self._progress(self._stage, done // MEGABYTE, self._size // MEGABYTE)
        if done < self._size:
            raise PassingError("the connection was cut")

    def _ask(self, url: str, done: int) -> Response:
        import requests

        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
        limits = (self._patience.connect, self._patience.silence)
        try:
            response = requests.get(url, headers=headers, stream=True, timeout=limits)
        except requests.RequestException as error:
            raise self._refusal(error) from error
        self._answered = True
        return response

    def _refusal(self, error: RequestException) -> TransferError:
        """Who gets no connection at all is offline: to try again would only make them wait."""
        from requests import exceptions
        from urllib3.exceptions import MaxRetryError

        match error:
            case exceptions.SSLError():
                return TransferError("its certificate is not accepted")
            case exceptions.ProxyError():
                return TransferError("the proxy cannot be reached")
            case exceptions.ReadTimeout():
                return PassingError(f"it says nothing for {self._patience.silence:g} s")
            case exceptions.ConnectTimeout():
                unreachable = f"it cannot be reached within {self._patience.connect:g} s"
            case exceptions.ConnectionError() if error.args and not isinstance(error.args[0], MaxRetryError):
                return PassingError("the connection was cut")
            case exceptions.ConnectionError():
                unreachable = "it cannot be reached"
            case _:
                return TransferError(" ".join(str(error).split()))
        return PassingError(unreachable) if self._answered else TransferError(unreachable)

    def _require_right(self, response: Response, done: int) -> int:
        """Returns where the answer starts: at what was asked for, or at 0 where the server sends everything anew."""
        status = response.status_code
        if status in PASSING:
            raise PassingError(f"it answers {status} {response.reason}".rstrip())
        if status == 416:
            raise OtherFileError(f"it is shorter than the {done:,} bytes that came before")
        if status == 206:
            start, length = _content_range(response)
        elif status == 200:
            start, length = 0, response.headers.get("Content-Length", "")
        else:
            raise TransferError(f"it answers {status} {response.reason}".rstrip())
        if length.isdecimal() and int(length) != self._size:
            raise OtherFileError(f"it has {int(length):,} bytes instead of {self._size:,}")
        if status == 206 and start != done:
            self._part.unlink(missing_ok=True)  # without a part, no range is asked for
            raise PassingError("it sends another part of the file than was asked for")
        return start


def _content_range(response: Response) -> tuple[int, str]:
    """Returns the first position (-1: none that can be read) and the whole file's length, `*` where it is not known."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    return (int(match[1]), match[2]) if match else (-1, "")


def _pieces(response: Response) -> Iterator[bytes]:
    """Yields the body as it is: a server may call an archive's own compression an encoding, which is not undone."""
    from urllib3 import exceptions

    try:
        yield from response.raw.stream(PIECE, decode_content=False)
    except exceptions.ReadTimeoutError as error:
        raise PassingError("nothing more comes") from error
    except exceptions.HTTPError as error:
        raise PassingError("the connection was cut") from error
