// How the addresses of decisions begin and end, where the page has something of its own for them.

const SCHEDULE = "schedule-loops", LAYOUT = "assign-layouts", PLAN = "plan-memory";
const STEPS_CHOICE = "steps";
