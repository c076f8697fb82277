"""Changes that the page in a notebook asks for, done by the kernel with a compilation's methods.

branches = Branches(c)
branches.change({"what": "decide", "decisions": {"fuse-activation/fuse-unary/relu1": False}})
branches.shown                     the fork; branches.show(0) goes back to `c`
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compilation.compilation import Compilation
from explorer.compilation.custom_passes.written import TEMPLATE, rules_of
from explorer.errors import InputError
from explorer.results import Trace


class Branches:
    """A compilation and what was made of it, one of them shown."""

    def __init__(self, first: Compilation) -> None:
        self.all = [first]
        self.shown = first

    @property
    def labels(self) -> list[str]:
        """Each in the words of its fork; the first in those of its model."""
        return [c.label or c.model.name for c in self.all]

    @property
    def place(self) -> int:
        """Of the one that is shown among all."""
        return self.all.index(self.shown)

    template = TEMPLATE
    """A rule to begin with."""

    def trace(self) -> Trace:
        return self.shown.trace()

    def first_trace(self) -> Trace | None:
        """What the one that is shown is compared with; None where that is the first."""
        return None if self.shown is self.all[0] else self.all[0].trace()

    def text_after(self, pass_name: str) -> str:
        """The program after a pass as complete text, which `change` takes edited."""
        return self.shown[self._known(pass_name)].after.dump()

    def show(self, place: int) -> None:
        """Raises InputError where there is no such branch."""
        if not 0 <= place < len(self.all):
            raise InputError(f"there is no branch {place}")
        self.shown = self.all[place]

    def change(self, asked: Mapping[str, object]) -> None:
        """Makes another compilation out of the one that is shown, and shows it.

        `what` is decide (decisions by address), edit (after, text) or rule (after, text). What
        comes from a page is checked like any input: InputError and PassError say what is wrong.
        """
        what, after, text = (str(asked.get(name, "")) for name in ("what", "after", "text"))
        if what == "decide":
            made = self.shown.fork(decisions=_decisions(asked.get("decisions")))
        elif what == "edit":
            made = self.shown.continue_from(self._known(after), text)
        elif what == "rule":
            made = self.shown.insert(rules_of(text), after=self._known(after))
        else:
            raise InputError(f"nothing is known of {what!r}", hint="decide, edit or rule")
        self.all.append(made)
        self.shown = made

    def _known(self, pass_name: str) -> str:
        if pass_name not in self.shown.names:
            raise InputError(f"there is no pass {pass_name!r}", hint="one of `names`")
        return pass_name


def _decisions(asked: object) -> dict[str, object]:
    if not isinstance(asked, Mapping) or not asked:
        raise InputError("nothing is decided", hint="decisions: values by address")
    return {str(address): value for address, value in asked.items()}
