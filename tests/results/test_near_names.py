"""Near names: one way to look for what somebody meant, and to say it."""

from explorer.results.names import MAX_LISTED, listed, near_name, nearest, suggestion

PASSES = ("import", "fuse-bias", "fuse-activation")


def test_a_similar_name_is_asked_for():
    assert near_name("fuse-bais", PASSES) == "did you mean 'fuse-bias'?"
    assert suggestion("fuse-bais", PASSES) == " (did you mean 'fuse-bias'?)"
    assert nearest("fuse", PASSES, 2, similar=0.3) == ["fuse-bias", "fuse-activation"]


def test_where_none_is_similar_all_are_named_or_what_the_caller_knows():
    assert near_name("xyz", PASSES) == "there are import, fuse-bias, fuse-activation"
    assert near_name("xyz", PASSES, otherwise="all sizes are fixed") == "all sizes are fixed"
    assert near_name("xyz", []) == "there are none"
    assert suggestion("xyz", PASSES) == " (known: import, fuse-bias, fuse-activation)"


def test_many_names_are_cut():
    names = [f"n{i}" for i in range(MAX_LISTED + 1)]
    assert listed(names).endswith("n23 and others")
