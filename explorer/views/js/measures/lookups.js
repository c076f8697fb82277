// Where the binary came from: the tiers of the program cache in the order in which they are asked,
// which of them answered, and why it had to be built.

import {element, emptyState, sortableTable} from "../ground/dom.js";
import {countText, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {LOOK} from "../theme.js";

const TIER_WORDS = {
  memory: "memory of this process",
  folder: "folder on disk",
  shipped: "exported file",
  source: "compiler",
};
const KEY_WORDS = {
  source: "source",
  options: "options",
  compiler: "compiler",
  device: "device",
  language: "language",
};

export async function lookupsView(app) {
  const lookups = app.data.head.lookups ?? [];
  if (!lookups.length) {
    if (app.session?.isPending("profile"))
      return {
        node: emptyState(
          "Not built yet",
          "The program is built, or taken from the cache, when its times are measured.",
        ),
      };
    if (app.data.head.has.profile)
      return {
        node: emptyState(
          "Nothing had to be built",
          "The program ran, and no compiler was asked for it: the machine takes it as it is.",
        ),
      };
    return {
      node: emptyState(
        "Nothing was built",
        "The program was not run when this was saved. c.run(inputs) and c.profile() build it.",
      ),
    };
  }
  const [latest] = lookups;
  const built = lookups.find((found) => found.reason);
  const reached = LOOK.tiers.findIndex((tier) => tier.name === latest.tier);
  const ladder = element(
    "ol",
    {class: "tiers", "aria-label": "where the program is looked for, in order"},
    LOOK.tiers.map((tier, index) =>
      element(
        "li",
        {
          class: `tier ${index === reached ? "answered" : index < reached ? "asked" : "spared"}`,
          title: tier.title,
          "aria-current": index === reached ? "true" : null,
        },
        element("span", {class: `glyph ink-${tier.name}`, "aria-hidden": "true"}, tier.glyph),
        element("strong", {}, TIER_WORDS[tier.name]),
        element(
          "span",
          {class: "quiet-text"},
          index === reached
            ? `had it after ${secondsText(latest.seconds)}`
            : index < reached
              ? "did not have it"
              : "not asked",
        ),
      ),
    ),
  );
  const columns = [
    {
      title: "from",
      value: (row) => LOOK.tiers.findIndex((tier) => tier.name === row.tier),
      text: (row) => tierMark(row.tier),
    },
    {
      title: "time",
      number: true,
      value: (row) => row.seconds,
      text: (row) => secondsText(row.seconds),
      exact: (row) => `${row.seconds} s`,
    },
    {
      title: "why it was built",
      value: (row) => row.reason,
      text: (row) => clip(row.reason || "–", 200),
      exact: (row) => clip(row.reason, 600),
    },
  ];
  const parts = element(
    "dl",
    {class: "key-parts"},
    latest.key.flatMap(([name, value]) => [
      element("dt", {}, KEY_WORDS[name] ?? name),
      element("dd", {class: "mono", title: clip(value, 600)}, clip(value, 200)),
    ]),
  );
  return {
    node: element(
      "div",
      {class: "scroll padded lookups"},
      ladder,
      built
        ? element("p", {}, element("strong", {}, "Why it was built: "), clip(built.reason, 400))
        : null,
      element("h3", {}, "What the program depends on"),
      parts,
      element("h3", {}, `Asked for ${countText(lookups.length, "time")}`),
      sortableTable(columns, lookups, {label: "look-ups of the program", sortBy: null}),
    ),
    aside: element(
      "span",
      {class: "quiet-text mono", title: `key ${latest.digest}`},
      `key ${latest.digest.slice(0, 12)}`,
    ),
  };
}

function tierMark(name) {
  const tier = LOOK.tiers.find((item) => item.name === name) ?? LOOK.tiers[LOOK.tiers.length - 1];
  return element(
    "span",
    {title: tier.title},
    element("span", {class: `ink-${tier.name}`, "aria-hidden": "true"}, tier.glyph),
    ` ${TIER_WORDS[tier.name]}`,
  );
}
