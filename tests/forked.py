"""Work in a forked process, which ends without what its parent would do at its end."""

import os
import sys
import traceback
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """Begin the work; the process's number. Its exit code is 1 where the work failed."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
