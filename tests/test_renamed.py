"""Former names of published things work, and warn."""

import pytest

from explorer.backends import records
from explorer.backends.interface import Backend
from explorer.backends.records import Companion
from explorer.renamed import renamed_names


def test_a_former_name_of_a_module_is_the_present_one_and_warns():
    with pytest.warns(DeprecationWarning, match="records.Beside is called Companion now"):
        assert records.Beside is Companion


def test_a_name_that_never_was_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Besides'"):
        renamed_names("explorer.backends.records", {"Beside": "Companion"})("Besides")


def test_a_backend_with_the_former_method_has_its_companion():
    with pytest.warns(DeprecationWarning, match="beside is called companion now"):

        class Former(Backend):
            def beside(self, target):
                return Companion(missing=f"none for {target}")

    assert Former.companion(None, "x").missing == "none for x"
