"""Puzzles: every one is played to its optimum, and refuses what is no solution with a sentence."""

from itertools import permutations, product

import pytest

from explorer.course import puzzles
from explorer.course.puzzles import array
from explorer.course.puzzles.array import FeedTheArray
from explorer.course.puzzles.fit import UNIT_BYTES, FitIt
from explorer.course.puzzles.fusing import OneRewriteTooMany
from explorer.course.puzzles.hunting import TreasureHunt
from explorer.course.puzzles.probing import FindTheBrokenPass
from explorer.course.puzzles.tiling import FourSteps
from explorer.errors import InputError

STUDENTS = {"four-steps-to-the-peak": 1, "feed-the-array": 2}
"""Whose optimum is found fastest."""
NO_STATES = (None, 7, "a text", [1, 2], {"z": 0}, {"a": "0"}, object())


def lowest_peak(buffers) -> int:
    """The least peak over all orders, each buffer at the lowest free address: Some order of every
    best plan, from the lowest buffer to the highest, gives it."""
    best = sum(b.size_bytes for b in buffers)
    for order in permutations(buffers):
        placed, peak = [], 0
        for buffer in order:
            meets = [
                (at, at + o.size_bytes)
                for at, o in placed
                if o.first < buffer.last and buffer.first < o.last
            ]
            at = 0
            for start, end in sorted(meets):
                if at + buffer.size_bytes <= start:
                    break
                at = max(at, end)
            peak = max(peak, at + buffer.size_bytes)
            if peak >= best:
                break
            placed.append((at, buffer))
        else:
            best = peak
    return best


@pytest.mark.parametrize("student", [0, 1, 2026])
def test_the_optimum_of_fit_it_is_that_of_all_orders(student):
    puzzle = FitIt(student)
    assert puzzle.optimum == lowest_peak(puzzle.buffers)
    assert puzzle.play(puzzle.solution.offsets).score == 1.0
    assert puzzle.is_solved
    assert "no plan is smaller" in repr(puzzle)


def test_students_have_instances_of_their_own_and_always_the_same():
    assert FitIt(1).buffers == FitIt(1).buffers
    assert FitIt(1).buffers != FitIt(2).buffers


def test_fit_it_shows_what_is_wrong_with_a_plan():
    puzzle = FitIt(3)
    flat = dict.fromkeys((b.id for b in puzzle.buffers), 0)
    assert puzzle.play(flat).yours is None
    assert "live at the same time" in puzzle.standing.message
    assert puzzle.score == 0.0
    apart, at = {}, 0
    for buffer in puzzle.buffers:
        apart[buffer.id] = at
        at += buffer.size_bytes
    assert 0 < puzzle.play(apart).score < 1
    assert f"optimum {int(puzzle.optimum)} bytes" in repr(puzzle)
    assert "smaller arena" in puzzle.standing.message


@pytest.mark.parametrize("state", NO_STATES)
def test_fit_it_refuses_what_are_no_addresses_and_keeps_the_last(state):
    puzzle = FitIt(0)
    puzzle.play(puzzle.solution.offsets)
    with pytest.raises(InputError):
        puzzle.play(state)
    assert puzzle.score == 1.0


@pytest.mark.parametrize("at", [-16, 8, True, 16.0, 1 << 40, "0"])
def test_fit_it_refuses_an_address_that_is_none(at):
    puzzle = FitIt(0)
    with pytest.raises(InputError):
        puzzle.play({**puzzle.solution.offsets, "a": at})
    assert UNIT_BYTES == 16


@pytest.mark.parametrize("student", [-1, True, "7", 1.5, None, 1 << 40])
def test_a_number_of_a_student_that_is_none_is_refused(student):
    with pytest.raises(InputError):
        puzzles.fit_it(student)


def test_a_link_opens_the_puzzle_in_its_state():
    puzzle = puzzles.fit_it(student=5)
    puzzle.play(puzzle.solution.offsets)
    again = puzzles.open_link(puzzle.link)
    assert (again.name, again.student, again.state) == ("fit-it", 5, dict(puzzle.state))
    assert again.score == 1.0
    assert puzzles.open_link(puzzles.fit_it(5).link).state is None


@pytest.mark.parametrize(
    "link",
    [
        "",
        7,
        "https://example.org/",
        "explorer-puzzle:fit-it",
        "explorer-puzzle:fit-it?student=x&state=bnVsbA",
        "explorer-puzzle:fit-it?student=1&state=%00",
        "explorer-puzzle:fit-at?student=1&state=bnVsbA",
        "explorer-puzzle:fit-it?student=1&state=" + "A" * (1 << 17),
    ],
)
def test_a_damaged_link_is_refused(link):
    with pytest.raises(InputError):
        puzzles.open_link(link)


def test_a_link_cannot_carry_a_score():
    """The state of another student is judged by this one's instance."""
    theirs = puzzles.fit_it(student=1)
    link = theirs.play(theirs.solution.offsets).link.replace("student=1", "student=2")
    assert puzzles.open_link(link).score < 1.0


def test_one_fused_activation_costs_memory():
    puzzle = OneRewriteTooMany()
    assert puzzle.play([]).yours is None
    (third,) = (a for a in puzzle.rewrites if a.endswith("/relu3"))
    (first,) = (a for a in puzzle.rewrites if a.endswith("/add1"))
    assert puzzle.play([first]).yours == 2
    assert puzzle.play([third, third]).yours == 1
    assert puzzle.score == 1.0
    for state in ("fuse-bias", [7], ["no/such/rewrite"], None):
        with pytest.raises(InputError):
            puzzle.play(state)


def bisected(puzzle: FindTheBrokenPass) -> int:
    right, wrong = 0, len(puzzle.rewrites)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if puzzle.probe(middle) == "wrong":
            wrong = middle
        else:
            right = middle
    return wrong


def test_bisection_finds_the_broken_rewrite_with_the_fewest_probes():
    puzzle = FindTheBrokenPass(2)
    assert puzzle.play(bisected(puzzle)).score == 1.0
    again = puzzles.open_link(puzzle.link)
    assert (again.yours, again.score) == (puzzle.optimum, 1.0)


@pytest.mark.parametrize("student", range(2, 30, 3))
def test_no_luck_helps_to_find_it(student):
    """Whatever two probes say, more than one rewrite is left: a guess is none."""
    puzzle = FindTheBrokenPass(student)
    count = len(puzzle.rewrites)
    for probes in ([], [count // 2], [count - 1, 1]):
        for answer in (1, count // 2, count):
            puzzle.play({"probes": probes, "answer": answer})
            assert puzzle.yours is None


def test_probing_one_after_the_other_scores_less():
    puzzle = FindTheBrokenPass(2)
    probes = list(range(1, len(puzzle.rewrites)))
    for answer in range(1, len(puzzle.rewrites) + 1):
        puzzle.play({"probes": probes, "answer": answer})
        if puzzle.yours:
            break
    assert 0 < puzzle.score < 0.5


@pytest.mark.parametrize("count", [-1, 13, True, "3", 2.0])
def test_a_probe_of_no_rewrite_costs_nothing(count):
    puzzle = FindTheBrokenPass(2)
    with pytest.raises(InputError):
        puzzle.probe(count)
    assert puzzle.probes == []


def test_the_peak_is_four_steps_away():
    puzzle = FourSteps(1)
    textbook = puzzle.play({}).yours
    assert textbook is not None and textbook > 5 * puzzle.optimum
    assert "decides" in puzzle.standing.message
    puzzle.play({"vectors": 2, "pixels": 4, "epilogue": "fused"})
    assert puzzle.is_solved and 0.95 < puzzle.score <= 1.0
    for state in ({"pixels": 99}, {"vectors": True}, {"colour": 1}, [1]):
        with pytest.raises(InputError):
            puzzle.play(state)


def test_five_changes_are_one_too_many():
    puzzle = FourSteps(0)
    other = {name: values[-1] for name, values in puzzle.choices.items()}
    start = puzzle.start
    changes = {n: v if v != start[n] else puzzle.choices[n][0] for n, v in other.items()}
    assert puzzle.play(changes).yours is None
    assert puzzle.standing.message == "5 changes, and 4 are allowed"


def test_a_line_of_code_leads_back_to_its_node():
    hunt = TreasureHunt(0)
    way = [hunt.start]
    for _ in range(4):
        (first, *_others) = hunt.look(way[-1])
        way.append(first)
    assert way[-1] == f"node {hunt.treasure}"
    assert hunt.play(hunt.treasure).score == 1.0
    assert puzzles.open_link(hunt.link).score == 1.0


def test_a_node_that_was_not_seen_is_a_guess():
    hunt = TreasureHunt(0)
    assert hunt.play(hunt.treasure).yours is None
    hunt.look("conv7")  # not seen from the line yet
    assert hunt.play(hunt.treasure).yours is None
    with pytest.raises(InputError):
        hunt.look("conv_3x3_1:100000")
    with pytest.raises(InputError):
        hunt.play("relu1")


@pytest.mark.parametrize("name", puzzles.NAMES)
def test_a_puzzle_shows_task_aim_and_yours(name):
    puzzle = puzzles.open_puzzle(name, STUDENTS.get(name, 0))
    text, page = repr(puzzle), puzzle._repr_html_()
    assert puzzle.task.split(".")[0] in text
    assert "aim" in page and "role='meter'" in page and "optimum" in page
    assert puzzle.proof


def test_a_name_of_no_puzzle_is_refused_with_a_near_one():
    with pytest.raises(InputError, match="fit-if") as error:
        puzzles.open_puzzle("fit-if")
    assert "fit-it" in error.value.hint


def test_the_array_is_fed_best_by_the_best_of_all_tiles():
    puzzle = FeedTheArray(2)
    best = min(
        (dict(zip(puzzle.choices, sizes, strict=True)) for sizes in _tiles(puzzle)),
        key=lambda tile: puzzle.play(tile).yours or 1e9,
    )
    assert puzzle.play(best).score == 1.0
    assert "the array works in" in puzzle.standing.message


def _tiles(puzzle):
    """Some tiles, the best of them found by the puzzle's own reference, for the simulator."""
    every = list(product(*puzzle.choices.values()))
    cycles = {sizes: array._cycles(puzzle.shape, sizes) for sizes in every}
    known = [sizes for sizes in every if cycles[sizes] is not None]
    return sorted(known, key=lambda sizes: cycles[sizes])[:3]


def test_sizes_of_tiles_are_refused_by_name():
    puzzle = FeedTheArray(2)
    whole = {name: values[-1] for name, values in puzzle.choices.items()}
    assert puzzle.play(whole).yours
    for state in ({}, {**whole, "rows": 3}, {**whole, "buffers": True}, {"rows": 1}, [1, 2]):
        with pytest.raises(InputError):
            puzzle.play(state)
