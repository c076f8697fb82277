// What the marks of a drawing mean: those that are in it, and no others.

import {element} from "../ground/dom.js";
import {MINUS, exactText} from "../ground/numbers.js";
import {safeName} from "../ground/scene.js";
import {LOOK} from "../theme.js";

export function legendContent(app, scene) {
  const marks = new Set(scene.items.map((item) => item.status).filter(Boolean));
  const devices = [...app.data.devices];
  return [
    element("summary", {}, "legend"),
    element(
      "ul",
      {},
      [...scene.families].map(([name, count]) =>
        element(
          "li",
          {},
          element("span", {class: `swatch family-${safeName(name)}`}, app.look.family(name).glyph),
          element(
            "span",
            {},
            `${app.look.family(name).title} `,
            element("span", {class: "quiet-text"}, exactText(count)),
          ),
        ),
      ),
      devices.length > 1
        ? devices.map((name, index) =>
            element(
              "li",
              {},
              element("span", {class: "swatch device", "data-device": index}),
              element("span", {}, `on ${name}`),
            ),
          )
        : null,
      [...marks].map((mark) =>
        element(
          "li",
          {},
          element("span", {class: `swatch mark-${mark}`}, app.look.difference(mark).glyph),
          app.look.difference(mark).title,
        ),
      ),
      scene.items.some((item) => item.problem)
        ? element(
            "li",
            {},
            element("span", {class: "swatch mark-unsupported"}, LOOK.unsupported.glyph),
            LOOK.unsupported.title,
          )
        : null,
      scene.boxes.some((box) => box.isRegion)
        ? element("li", {}, element("span", {class: "swatch region"}), "region: then, else, body")
        : null,
      scene.brackets.length
        ? element(
            "li",
            {},
            element("span", {class: "swatch mark-fused"}, "]"),
            "joins what was taken over with what took it over",
          )
        : null,
      scene.edges.some((edge) => edge.kind === "turn")
        ? element(
            "li",
            {},
            element("span", {class: "swatch turn-key"}, "1"),
            "goes on at the same number, in another column",
          )
        : null,
      scene.edges.some((edge) => edge.isOnChip)
        ? element(
            "li",
            {},
            element("span", {class: "swatch on-chip-key"}),
            "stays on the chip: its layers are one group",
          )
        : null,
      scene.edges.some((edge) => edge.kind === "back")
        ? element(
            "li",
            {},
            element("span", {class: "swatch back-key"}, "↑"),
            "runs upwards: it leads back",
          )
        : null,
      scene.items.some((item) => item.constants?.length)
        ? element(
            "li",
            {},
            element("span", {class: "swatch family-weight"}, app.look.family("weight").glyph),
            "constants that it uses",
          )
        : null,
      scene.items.some((item) => item.isGhost)
        ? element(
            "li",
            {},
            element("span", {class: "swatch mark-removed"}, MINUS),
            "as a tab on top: its place was taken",
          )
        : null,
    ),
  ];
}
