// What part of the graph is in sight, and how large: fitting, zooming, and never out of sight.

const SMALLEST_ZOOM = 0.04;
const LARGEST_ZOOM = 2.5;
const LARGEST_FIT = 1.1;
const MARGIN = 14; // around a graph that fits
const STAYS = 0.8; // of the fitting scale: from here on a fitted graph keeps the one that it has
const MIN_IN_SIGHT = 56; // pixels of the graph, in both directions

// size() -> [width, height] of the pane; sceneNow() -> what is drawn, or null.
export function createCamera(size, sceneNow) {
  const view = {x: 0, y: 0, k: 1};
  let isFitted = false; // as long as nobody moved it

  const room = () => {
    const [width, height] = size();
    return {width: width - 2 * MARGIN, height: height - 2 * MARGIN};
  };
  const fitting = ({width, height}) =>
    Math.max(SMALLEST_ZOOM, Math.min(LARGEST_FIT, room().width / width, room().height / height));
  const onScreen = (item) => [item.x * view.k + view.x, item.y * view.k + view.y];
  const isInSight = (item) => {
    const [x, y] = onScreen(item),
      [width, height] = size();
    return x > 0 && x < width && y > 0 && y < height;
  };

  function centre() {
    const scene = sceneNow(),
      [width, height] = size();
    view.x = (width - scene.width * view.k) / 2;
    view.y = (height - scene.height * view.k) / 2;
  }

  // All of it, as large as possible.
  function fit() {
    const scene = sceneNow();
    if (!scene?.width) return;
    isFitted = true;
    view.k = fitting(scene);
    centre();
  }

  // What is drawn now is another graph, or the pane has another size. anchors: [[item, x, y]] that
  // were at these places of the screen, the best first.
  function follow(anchors) {
    const scene = sceneNow();
    if (!scene?.width) return;
    const best = fitting(scene);
    if (isFitted && (view.k > best || view.k < STAYS * best)) {
      fit();
      return;
    }
    const [anchor] = anchors;
    if (anchor) {
      const [item, x, y] = anchor;
      view.x = x - item.x * view.k;
      view.y = y - item.y * view.k;
    }
    if (isFitted) {
      const [width, height] = size();
      view.x = within(view.x, MARGIN, width - MARGIN - scene.width * view.k);
      view.y = within(view.y, MARGIN, height - MARGIN - scene.height * view.k);
    }
    keepInSight();
  }

  // Some of the graph stays in the pane, whatever is done.
  function keepInSight() {
    const scene = sceneNow(),
      [width, height] = size();
    if (!scene) return;
    const least = (length, extent) => Math.min(MIN_IN_SIGHT, length / 2, extent);
    const [right, lower] = [scene.width * view.k, scene.height * view.k];
    const across = least(width, right),
      down = least(height, lower);
    view.x = within(view.x, across - right, width - across);
    view.y = within(view.y, down - lower, height - down);
  }

  function zoomTo(k, at) {
    const [width, height] = size();
    const [x, y] = at || [width / 2, height / 2];
    const next = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, k));
    view.x = x - ((x - view.x) * next) / view.k;
    view.y = y - ((y - view.y) * next) / view.k;
    view.k = next;
    isFitted = false;
    keepInSight();
    // Between two columns there may be nothing.
    if (!at && !sceneNow()?.items.some(isInSight)) goTo(nearest());
  }

  // The operation closest to the middle of the pane.
  function nearest() {
    const [width, height] = size();
    let best = null,
      least = Infinity;
    for (const item of sceneNow()?.items ?? []) {
      const [x, y] = onScreen(item);
      const distance = Math.hypot(x - width / 2, y - height / 2);
      if (distance < least) [best, least] = [item, distance];
    }
    return best;
  }

  function goTo(place) {
    if (!place) return;
    const [width, height] = size();
    view.x = width / 2 - place.x * view.k;
    view.y = height / 2 - place.y * view.k;
    isFitted = false;
    keepInSight();
  }

  function moveTo(x, y) {
    Object.assign(view, {x, y});
    isFitted = false;
    keepInSight();
  }

  return {
    view,
    room,
    fit,
    follow,
    zoomTo,
    goTo,
    moveTo,
    nearest,
    onScreen,
    isInSight,
    isFitted: () => isFitted,
    // What the pane has on either side of the drawing when all of it is shown, in its units.
    beside() {
      const scene = sceneNow();
      return Math.round((size()[0] / fitting(scene) - scene.width) / 2);
    },
    // From now on it stays as it is, whatever is drawn.
    stay() {
      isFitted = false;
    },
    // Whether all of the graph is in the pane.
    showsAll() {
      const scene = sceneNow(),
        [width, height] = size();
      return (
        !scene ||
        (view.x > -1 &&
          view.y > -1 &&
          view.x + scene.width * view.k < width + 1 &&
          view.y + scene.height * view.k < height + 1)
      );
    },
    // What is looked at, as another camera takes it.
    state: () => ({...view, isFitted}),
    lookAt({x, y, k, ...other}) {
      Object.assign(view, {x, y, k});
      isFitted = other.isFitted;
    },
  };
}

function within(value, a, b) {
  return Math.min(Math.max(a, b), Math.max(Math.min(a, b), value));
}
