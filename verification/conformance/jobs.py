"""Many cases in child processes, and their outcomes.

outcomes = run_cases(cases, ("CPU", "OPENCL"), jobs=2, seconds=60)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from explorer.runtime.child import Answer, Child
from verification.children import answer_all
from verification.conformance.sanitizers import sanitizer_environment
from verification.conformance.suite import Case, Outcome

CASE_PROCESS = ("-m", "verification.conformance.case_process")

Report = Callable[[Outcome, int, int], None]
"""Called with every outcome, how many there are so far, and how many there will be."""


def run_cases(
    cases: Sequence[Case],
    devices: Sequence[str],
    *,
    jobs: int = 1,
    seconds: float = 120.0,
    sanitize: bool = False,
    arguments: Sequence[str] = (),
    report: Report | None = None,
) -> list[Outcome]:
    """Runs every case on every device; outcomes by device, then in the cases' order.

    `seconds`: the time limit of one case. `sanitize`: generated C is sanitized.
    `arguments`: what the children are told besides. `report` is called
    by one thread at a time.
    """
    requests = [
        {"case": case.name, "group": case.group, "device": device}
        for device in devices
        for case in cases
    ]
    environment = sanitizer_environment() if sanitize else {}
    flags = [*(["--sanitize"] if sanitize else []), *arguments]

    def outcome(number: int, answer: Answer) -> Outcome:
        return Outcome(**{**requests[number], **answer})

    def tell(number: int, answer: Answer, done: int) -> None:
        if report is not None:
            report(outcome(number, answer), done, len(requests))

    answers = answer_all(
        requests,
        lambda: Child(CASE_PROCESS, flags, environment),
        jobs=jobs,
        seconds=seconds,
        report=tell,
    )
    return [outcome(number, answer) for number, answer in enumerate(answers)]
