"""A pytest plugin: tests in forked processes, which share what one collection has imported.

    python -m pytest -p tests.forks --forks 3

pytest-xdist's workers each import PyTorch and all tests, and send each test's report whole: that is
a tenth of the time of ours. Here one process collects, then forks; a process gets the tests of a
file in a row, in smaller pieces towards the end. Of a test that passed only its time is sent. A
process that dies is a failure of its test, and another goes on. Linux alone: elsewhere a fork of a
process that has threads of the system's may hang, and `tools/tests.py` takes pytest-xdist.
"""

import builtins
import io
import json
import os
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

PIECES = 4
"""A piece has at most this part of each process's share of the tests that are left."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run tests in this many forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    broken = session.testsfailed and not options.continue_on_collection_errors
    if options.forks < 1 or options.collectonly or broken or not session.items:
        return None  # pytest's own loop
    Parent(session, options.forks).run()
    return True


class Worker:
    """A process, and the tests that it has not reported."""

    def __init__(
        self,
        number: int,
        session: pytest.Session,
        tests: Sequence[int],
        others: Iterable[Connection],
    ) -> None:
        self.tests = deque(tests)
        self.end, theirs = Pipe()
        self.process = os.fork()
        if self.process == 0:
            for end in (self.end, *others):  # or it would not notice that its parent is gone
                end.close()
            _begin(number, session, theirs, list(tests))
        theirs.close()


class Parent:
    """Hands out tests, and passes on what was reported."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session, self.count = session, count
        self.workers: dict[Connection, Worker] = {}
        self.next = 0
        self.forked = 0
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self) -> None:
        try:
            for _ in range(self.count):
                if tests := self.piece():
                    self.fork(tests)
            while self.workers:
                for end in wait(list(self.workers)):
                    assert isinstance(end, Connection)
                    self.listen(self.workers[end])
                if self.session.shouldfail:
                    raise self.session.Failed(self.session.shouldfail)
                if self.session.shouldstop:
                    raise self.session.Interrupted(self.session.shouldstop)
        finally:
            for worker in self.workers.values():
                os.kill(worker.process, 15)
                os.waitpid(worker.process, 0)

    def piece(self) -> list[int]:
        """Tests of one file, fewer towards the end."""
        items, start = self.session.items, self.next
        most = max(1, (len(items) - start) // (PIECES * self.count))
        while self.next < len(items) and self.next - start < most:
            if items[self.next].path != items[start].path:
                break
            self.next += 1
        return list(range(start, self.next))

    def fork(self, tests: Sequence[int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        worker = Worker(self.forked, self.session, tests, self.workers)
        self.forked += 1
        self.workers[worker.end] = worker

    def listen(self, worker: Worker) -> None:
        said: Any = "ended"
        with suppress(EOFError, ConnectionError):
            said = json.loads(worker.end.recv_bytes())
        if said == "ended":
            self.ended(worker)
            return
        if said is None:
            tests = self.piece()
            worker.tests.extend(tests)
            with suppress(ConnectionError):  # it died since; it will be noticed
                worker.end.send_bytes(json.dumps(tests).encode())
            return
        for kind, told in said:
            if kind == "warning":
                self.warn(*told)
            else:
                self.report(worker.tests[0], kind, told)
        worker.tests.popleft()

    def report(self, at: int, kind: str, told: Any) -> None:
        item = self.session.items[at]
        if kind == "passed":
            when, duration = told
            report = pytest.TestReport(
                item.nodeid, item.location, {}, "passed", None, when, duration=duration
            )
        else:
            report = item.config.hook.pytest_report_from_serializable(config=item.config, data=told)
        item.ihook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def warn(self, category: str, text: str, file: str, line: int, when: Any, node: str) -> None:
        """A warning of an unknown class is shown as a UserWarning."""
        kind = getattr(builtins, category, UserWarning)
        self.session.config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": warnings.WarningMessage(kind(text), kind, file, line),
                "when": when,
                "nodeid": node,
                "location": None,
            }
        )

    def ended(self, worker: Worker) -> None:
        """It has run all it was given, or its test ended it."""
        del self.workers[worker.end]
        worker.end.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        if not worker.tests:
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        item = self.session.items[worker.tests.popleft()]
        for when, outcome, text in (
            ("call", "failed", f"the process of this test ended: {how}"),
            ("teardown", "passed", None),
        ):
            report = pytest.TestReport(
                item.nodeid,
                item.location,
                {},
                outcome,
                text,
                when,  # type: ignore[arg-type]
            )
            item.ihook.pytest_runtest_logreport(report=report)
        if tests := [*worker.tests] or self.piece():
            self.fork(tests)


class Child:
    """The plugin of a forked process: it sends what pytest reports."""

    def __init__(self, config: pytest.Config, end: Connection) -> None:
        self.config, self.end = config, end
        self.told: list[tuple[str, Any]] = []

    def run(self, session: pytest.Session, tests: list[int]) -> None:
        left = deque(tests)
        while left:
            at = left.popleft()
            if not left:  # what comes next decides which fixtures stay
                self.end.send_bytes(b"null")
                left.extend(json.loads(self.end.recv_bytes()))
            item, later = session.items[at], session.items[left[0]] if left else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=later)
            self.end.send_bytes(json.dumps(self.told).encode())
            self.told.clear()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and not hasattr(report, "wasxfail") and not report.user_properties:
            self.told.append(("passed", (report.when, report.duration)))
            return
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.told.append(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        one = warning_message
        where = (str(one.filename), one.lineno, when, nodeid)
        self.told.append(("warning", (one.category.__name__, str(one.message), *where)))


def _begin(number: int, session: pytest.Session, end: Connection, tests: list[int]) -> None:
    """The life of a forked process: nothing of its parent's is written, cleaned up or captured."""
    code = 1
    try:
        config = session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        config.get_terminal_writer()._file = io.StringIO()
        folders = config._tmp_path_factory  # type: ignore[attr-defined]
        folders._given_basetemp = folders.getbasetemp() / f"fork{number}"
        folders._basetemp = None
        child = Child(config, end)
        config.pluginmanager.register(child, "forked")
        child.told.clear()  # pytest repeats earlier warnings to each new plugin
        child.run(session, tests)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
