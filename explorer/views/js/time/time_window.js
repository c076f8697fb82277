// The part of a clock that is looked at: from 0 to `end`, moved and zoomed within that.

const MAX_ZOOM = 1e5;

// {from, to, end}, and what changes it; `onchange` is called at most once per frame.
export function timeWindow(end, onchange) {
  const view = {from: 0, to: end, end};
  let isAsked = false;
  function later() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      onchange();
    });
  }
  function move(start, span = view.to - view.from) {
    view.from = Math.max(0, Math.min(end - span, start));
    view.to = view.from + span;
    later();
  }
  return Object.assign(view, {
    move,
    all: () => move(0, end),
    zoom(factor, at = (view.from + view.to) / 2) {
      const span = Math.min(end, Math.max(end / MAX_ZOOM, (view.to - view.from) * factor));
      move(at - ((at - view.from) / (view.to - view.from)) * span, span);
    },
    // An interval with a tenth of its length at both sides.
    fit(from, to) {
      const span = Math.min(end, Math.max(end / MAX_ZOOM, 1.2 * (to - from)));
      move((from + to - span) / 2, span);
    },
    // What is out of sight comes into its middle.
    reveal(from, to) {
      if (to < view.from || from > view.to) move((from + to - view.to + view.from) / 2);
    },
  });
}
