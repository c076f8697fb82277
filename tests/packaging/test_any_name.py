"""Whatever a model is called, its package has a name that a person could give."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from explorer.packaging.names import derived_name, package_name


@given(st.text(max_size=60))
def test_every_derived_name_is_one_that_a_person_could_give(text):
    name = derived_name(text)
    assert package_name(name, "") == name
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
