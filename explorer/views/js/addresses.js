// How the addresses of decisions begin and end, where the page has something of its own for them.

export const SCHEDULE = "schedule-loops";
export const LAYOUT = "assign-layouts";
export const PLAN = "plan-memory";
export const STEPS_CHOICE = "steps";
