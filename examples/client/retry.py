"""Send HTTP requests, and wait when the server says so."""

import email.utils
import random
import threading
import time
import urllib.error
import urllib.request

ATTEMPTS = 5
BASE = 0.25  # seconds of the first pause; each later one is twice as long
MOST = 20.0  # seconds of any pause that the server did not ask for
PATIENCE = 60.0  # the longest Retry-After that is worth waiting for


class Budget:
    """Ten requests pay for one retry: a server in trouble needs less load, not more."""

    def __init__(self):
        self._lock = threading.Lock()
        self._spent = 0  # tenths of retries

    def spend(self, tenths):
        with self._lock:
            if self._spent + tenths > 100:
                return False
            self._spent = max(0, self._spent + tenths)
            return True


BUDGET = Budget()


def send(request, timeout=10.0):
    """Return the response to a urllib.request.Request, or raise what urlopen raised last."""
    BUDGET.spend(-1)
    for attempt in range(ATTEMPTS):
        told = None
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as answer:  # any status from 400 on
            told = retry_after(answer.headers)
            if attempt == ATTEMPTS - 1 or not again(request, answer.code, told):
                raise
            answer.close()
        except OSError:  # no answer: refused, reset, timed out
            if attempt == ATTEMPTS - 1 or not again(request, None, None):
                raise
        # Never earlier than told; and then by chance, so that clients who were
        # refused together do not come back together.
        time.sleep((told or 0) + random.uniform(0, min(MOST, BASE * 2**attempt)))


def again(request, status, told):
    """Say whether to send the request once more, after a status, or None for no answer."""
    if told is not None and told > PATIENCE:
        return False
    if status == 429:
        return told is not None  # without a Retry-After waiting does not help
    if status in (None, 502, 503, 504):
        return repeatable(request) and BUDGET.spend(10)
    return False


def repeatable(request):
    """Say whether it does no harm if the server sees the request twice."""
    if request.get_method() in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"):
        return True
    return request.has_header("Idempotency-key")  # urllib spells names so


def retry_after(headers):
    """Read what the server asked for, seconds or a date, in seconds; None for nothing."""
    field = headers.get("Retry-After", "")
    if field.isascii() and field.isdigit():
        return float(field)
    try:
        at = email.utils.parsedate_to_datetime(field)
    except (TypeError, ValueError):
        return None
    return max(0.0, at.timestamp() - time.time())
