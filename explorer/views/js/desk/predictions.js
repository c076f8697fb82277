// What was predicted of the tries of this page: by the branch that they were tried on and what they
// decide. A branch that was made by hand, or in another page, has none.

// {note(branch, quantity, lever, option), of(branch)}
export function createPredictions() {
  const noted = [];
  return {
    note(parent, quantity, lever, {decisions, change}) {
      const isKnown = change !== null;
      noted.push({parent, quantity, decisions, change, source: lever.source, isKnown});
    },
    // Of a branch {parent, settings}: the last prediction for what it decides.
    of({parent, settings}) {
      const own = noted.filter((one) => one.parent === parent && decides(settings, one.decisions));
      return own.at(-1);
    },
  };
}

function decides(settings, decisions) {
  return decisions.every(([address, value]) =>
    address === "target" || address === "quantize"
      ? settings[address] === value
      : JSON.stringify(settings.decisions[address] ?? null) === JSON.stringify(value),
  );
}
