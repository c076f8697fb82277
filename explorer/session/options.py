"""The names of a compilation's options, for which nothing of the compiler is loaded."""

from collections.abc import Mapping, Sequence

from explorer.calling import require_known

OPTIONS = (
    "disable", "decisions", "fuel", "planner", "budget_bytes", "flash_bytes", "pipeline",
    "tuned", "tuned_threads", "host", "quantization", "modes", "states", "capacity", "clusters",
    "fallback", "progress",
)  # fmt: skip
"""Those of `explorer.compilation.settings.options.CompileOptions`."""


def require_options(called: str, options: Mapping[str, object], own: Sequence[str]) -> None:
    """InputError for an option that neither `called` nor a compilation has, with a near name."""
    require_known(called, options, (*own, *OPTIONS))
