"""The OpenAPI file is kept to: requests made from it by schemathesis, where it is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = (
    "not_a_server_error,response_schema_conformance,content_type_conformance,"
    "status_code_conformance"
)


def test_no_reference_is_left_open(direct):
    text = direct.get("/openapi.json").text
    assert '"$ref"' not in text
    assert "PairBody" in text


@pytest.mark.slow
def test_schemathesis(address):
    beside = Path(sys.executable).parent
    tool = shutil.which("schemathesis", path=os.pathsep.join([str(beside), os.environ["PATH"]]))
    if tool is None:
        pytest.skip("schemathesis is not installed")
    ran = subprocess.run(
        [tool, "run", f"{address}/openapi.json", "--max-examples", "40", "--checks", CHECKS],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
