"""The compiler of lesson 0 replaces an operation wherever it is read."""

from explorer.course.exercises.small_compiler import rewritten


def test_a_rule_changes_operations_below_others_and_each_reader_of_them():
    def doubles(node):
        return ("mul", node[1], 2.0) if node[0] == "add" and node[1] == node[2] else None

    twice = ("add", "x", "x")
    graph = ("matmul", ("relu", twice), ("add", twice, "y"))
    double = ("mul", "x", 2.0)
    assert rewritten(graph, [doubles]) == ("matmul", ("relu", double), ("add", double, "y"))
    assert rewritten(twice, [doubles]) == double
    assert rewritten("x", [doubles]) == "x"
