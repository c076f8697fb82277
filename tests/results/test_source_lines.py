"""Lines of a program with the nodes that they made, and those of the lines that they call."""

from explorer.results.source import SourceLine, SourcePlace, source_lines


def at(line: int, file: str = "net.py") -> SourcePlace:
    return SourcePlace(file, line, f"line {line}")


def test_the_innermost_line_made_a_node_and_others_called_it():
    nodes = [
        ("exp", (at(9),)),
        ("linear", (at(7), at(2, "layer.py"))),
        ("add", (at(7),)),
        ("again", (at(5), at(5), at(7))),  # a line that calls itself counts once
    ]
    assert source_lines(nodes) == (
        SourceLine(at(5), (), ("again",)),
        SourceLine(at(7), ("add", "again"), ("linear",)),
        SourceLine(at(9), ("exp",), ()),
        SourceLine(at(2, "layer.py"), ("linear",), ()),
    )


def test_files_stand_in_the_order_of_their_use():
    lines = source_lines([("a", (at(3, "b.py"),)), ("b", (at(1, "a.py"), at(2, "b.py")))])
    assert [(line.place.file, line.place.line) for line in lines] == [
        ("b.py", 2), ("b.py", 3), ("a.py", 1),
    ]  # fmt: skip
    assert source_lines([]) == ()
