"""Requests that child processes answer, several at once, each with a time limit.

    answers = answer_all(requests, lambda: Child(("-m", "verification.conformance.case_process")),
                         jobs=2, seconds=60)

One that dies or does not answer is replaced (`explorer/runtime/child.py`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from explorer.runtime.child import Answer, Child

Report = Callable[[int, Answer, int], None]
"""Called with a request's number, its answer, and how many answers there are so far."""


def answer_all(
    requests: Sequence[Answer],
    make_child: Callable[[], Child],
    *,
    jobs: int = 1,
    seconds: float = 120.0,
    report: Report | None = None,
) -> list[Answer]:
    """The answers in the order of the requests; `jobs` children work at once.

    `seconds`: the time limit of one request. `report` is called by one thread at a time.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(requests)):
        waiting.put(number)
    answers: dict[int, Answer] = {}
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        child: Child | None = None
        try:
            child = make_child()
            while not errors:
                number = waiting.get_nowait()
                answer = child.ask(requests[number], seconds)
                with lock:
                    answers[number] = answer
                    if report is not None:
                        report(number, answer, len(answers))
        except queue.Empty:
            pass
        except BaseException as error:  # raised again in the thread that asked
            errors.append(error)
        finally:
            if child is not None:
                child.close()

    threads = [threading.Thread(target=work) for _ in range(max(1, min(jobs, len(requests))))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as error:
        errors.append(error)
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(requests))]
