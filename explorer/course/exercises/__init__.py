"""The judges of the course's exercises: what is wrong with an answer, never what is right.

    check(answer, exercises.least_fuel(c, "fold-batch-norm"))
        ✗ with 11 of fuel only 7 of the 11 rewrites of fold-batch-norm are done

Each function makes a judge: it takes the lesson's objects, and gives a function of the answer that
says True or a sentence. Judges ask for what an answer *does* (rewrites that fired, numbers that are
right, bytes, registers), never for a name or for time.
"""

from explorer.course.exercises.caching import cache_size, keeps_in_place, rows_that_cost_as_much
from explorer.course.exercises.compiling import (
    accumulators,
    address_of_rewrite,
    fits_into,
    folds_norms_rightly,
    has_accumulators,
    has_launches,
    heals,
    is_another_search,
    is_small_and_right,
    keeps_float,
    least_fuel,
    nearer_by,
    places_tightly,
    reaches_bounds,
    replaces_divisions,
    share_of_speed,
    smallest_variance,
    spills,
    stored_byte,
    tells_steps_otherwise,
    uses_schedule,
)
from explorer.course.exercises.counting import (
    above_the_bound,
    busiest_layer,
    changed_file,
    cycles_of_array,
    folded_bias,
    fullest_launch,
    growth_of_weights,
    intensity,
    least_batch,
    most_intense,
    nodes_in_kernel,
    requantized,
    rewrites_of,
    rule_at,
    share_of_products,
    steps_between,
    takes_fewer_cycles,
    way_without_errors,
)
from explorer.course.exercises.designing import (
    balanced_array,
    is_a_better_array,
    smallest_machine,
)
from explorer.course.exercises.fitting import meets_budget
from explorer.course.exercises.placing import cost_of, keeps_all_on, runs_on
from explorer.course.exercises.reading import (
    damaged_text,
    repaired,
    shape_with,
    without_activation,
)
from explorer.course.exercises.small_compiler import (
    brings_factors_together,
    merges_factors,
    turns_products,
)

__all__ = [
    "above_the_bound",
    "accumulators",
    "address_of_rewrite",
    "balanced_array",
    "brings_factors_together",
    "busiest_layer",
    "cache_size",
    "changed_file",
    "cost_of",
    "cycles_of_array",
    "damaged_text",
    "fits_into",
    "folded_bias",
    "folds_norms_rightly",
    "fullest_launch",
    "growth_of_weights",
    "has_accumulators",
    "has_launches",
    "heals",
    "intensity",
    "is_a_better_array",
    "is_another_search",
    "is_small_and_right",
    "keeps_all_on",
    "keeps_float",
    "keeps_in_place",
    "least_batch",
    "least_fuel",
    "meets_budget",
    "merges_factors",
    "most_intense",
    "nearer_by",
    "nodes_in_kernel",
    "places_tightly",
    "reaches_bounds",
    "repaired",
    "replaces_divisions",
    "requantized",
    "rewrites_of",
    "rows_that_cost_as_much",
    "rule_at",
    "runs_on",
    "shape_with",
    "share_of_products",
    "share_of_speed",
    "smallest_machine",
    "smallest_variance",
    "spills",
    "steps_between",
    "stored_byte",
    "takes_fewer_cycles",
    "tells_steps_otherwise",
    "turns_products",
    "uses_schedule",
    "way_without_errors",
    "without_activation",
]
