// Ranges of weights, channel by channel: a bar from the lowest to the highest weight of each. Where
// some are many times as wide as others, one scale for all would leave those few steps.

import {element, shape} from "../ground/dom.js";
import {decode, exactText} from "../ground/numbers.js";
import {shortRange} from "./threshold_marks.js";

const WIDTH = 440,
  HEIGHT = 96,
  LEFT = 48,
  BOTTOM = 16;

export function channelPlot(weights) {
  const lows = weights.lows.map(decode),
    highs = weights.highs.map(decode);
  const count = lows.length;
  const sizes = lows.map((low, place) => Math.max(Math.abs(low), Math.abs(highs[place])));
  const largest = Math.max(...sizes) || 1;
  const least = Math.min(...sizes.filter((size) => size > 0), largest);
  const step = (WIDTH - LEFT - 4) / Math.max(count, 1);
  const middle = (HEIGHT - BOTTOM) / 2 + 2;
  const y = (value) => middle - (value / largest) * (middle - 6);
  const title = (place) =>
    `channel ${weights.channels[place]}: ${shortRange(lows[place])} to ${shortRange(highs[place])}`;
  return element(
    "figure",
    {class: "quantized-channels"},
    element(
      "figcaption",
      {},
      element("strong", {}, `weights of ${weights.operation}`),
      ` ${exactText(weights.total)} channels` +
        (count < weights.total
          ? `, shown are the ${count / 2} widest and the ${count / 2} narrowest`
          : "") +
        `; the widest has ${(largest / least).toFixed(1)} times the range of the narrowest`,
    ),
    shape(
      "svg",
      {
        class: "channels",
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `ranges of ${count} channels of ${weights.operation}`,
      },
      [largest, 0, -largest].map((tick) => [
        shape("line", {
          class: tick ? "grid" : "base",
          x1: LEFT,
          x2: WIDTH - 4,
          y1: y(tick),
          y2: y(tick),
        }),
        shape(
          "text",
          {class: "axis", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end"},
          shortRange(tick),
        ),
      ]),
      lows.map((low, place) =>
        shape(
          "rect",
          {
            class: "channel",
            x: LEFT + place * step,
            y: y(highs[place]),
            width: Math.max(step > 3 ? step - 1 : step, 0.5),
            height: Math.max(y(low) - y(highs[place]), 1),
          },
          shape("title", {}, title(place)),
        ),
      ),
      shape("text", {class: "axis", x: WIDTH - 4, y: HEIGHT - 2, "text-anchor": "end"}, "channels"),
    ),
  );
}
