"""Under `make sanitize` C really is: what is out of bounds ends the process, and says where."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    os.environ.get("REGARD_SANITIZED") != "1", reason="`make sanitize` runs it"
)
BEYOND = """
import torch
from regard.attention._ops.cpu import additive_calls
from regard import native
additive_calls.pack(torch.randn(4, 8))
beyond = native.raw("regard_additive_pack")
key, packed = torch.randn(64, 8), torch.empty(64, additive_calls.width(8))
beyond(key.data_ptr(), packed.data_ptr(), {rows}, 8, 1)
print("done")
"""


@pytest.mark.parametrize("rows", [64, 66])
def test_a_read_beyond_a_tensor_is_found(rows):
    done = subprocess.run([sys.executable, "-c", BEYOND.format(rows=rows)], capture_output=True,
                          text=True, check=False)  # fmt: skip
    if rows == 64:
        assert done.stdout.strip() == "done", done.stderr[-2000:]
    else:
        assert done.returncode != 0
        assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
        assert "additive" in done.stderr
