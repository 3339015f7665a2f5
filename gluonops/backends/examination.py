"""What :func:`gluonops.doctor` reports of the backends, the library's threads, its memory and its instruction set."""
from __future__ import annotations

from ..runtime import doctor
from . import backend, native, tuning


def install() -> None:
    """Let the doctor, which knows no room above its own, ask this one."""
    if examine not in doctor.examiners:
        doctor.examiners.append(examine)


def examine(report: doctor.Report) -> None:
    """Add the state of each backend, the threads and the memory to the doctor's report."""
    for name in backend.BACKENDS:
        try:
            with backend.backend(name):
                report["backends"][name] = backend.resolve(name) if name == "auto" else "available"
        except ValueError as error:
            report["backends"][name] = f"not available: {getattr(error, 'what', error)}"
    try:
        report["backend"] = backend.current_backend()
    except ValueError as error:
        report["problems"].append(str(error))
    report.update(tuning.examine())
    report["processor"]["used"]["gluonops"] = native.instruction_set()
    report["hints"] += report["threads"].pop("problems")   # sentences on what could not be set in this process
