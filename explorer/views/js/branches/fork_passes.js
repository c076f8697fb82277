// Of the tab "fork": passes and rules that a fork leaves out or runs in another order.

import {ORDER, decide, isOff, orderOf} from "../ground/addresses.js";
import {element, section} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

// Optional passes in their order, with switches, ways up and down, and their rules. editing: {data,
// knobs, grouped(group, of), edit(change), allow(address, isAllowed)} of the tab.
export function passSwitches(editing, settings) {
  const {knobs, grouped, edit, allow} = editing;
  const names = inOrder(
    grouped("pass").map((knob) => knob.address),
    orderOf(settings),
  );
  return section(
    "Passes and rules",
    element(
      "ul",
      {class: "plain fork-passes"},
      names.map((name, index) => {
        const knob = knobs.get(name);
        const isOn = !isOff(settings, name);
        const box = element("input", {
          type: "checkbox",
          checked: isOn,
          "aria-label": `pass ${name} in the fork`,
          onchange: () => allow(name, box.checked),
        });
        const move = (step) => {
          const moved = [...names];
          [moved[index], moved[index + step]] = [moved[index + step], moved[index]];
          edit((wanted) => decide(wanted, ORDER, moved));
        };
        const rules = grouped("rule", name);
        const arrow = (step, sign, where) =>
          element(
            "button",
            {
              type: "button",
              class: "icon move",
              title: `run ${name} ${where}`,
              "aria-label": `run ${name} ${where}`,
              disabled: index + step < 0 || index + step >= names.length,
              onclick: () => move(step),
            },
            sign,
          );
        return element(
          "li",
          {class: isOn ? "" : "off"},
          element(
            "div",
            {class: "fork-pass"},
            element(
              "label",
              {class: "switch-row", title: clip(knob.why, 600)},
              box,
              element("span", {}, name),
            ),
            element("span", {class: "grow"}),
            arrow(-1, "↑", "earlier"),
            arrow(1, "↓", "later"),
          ),
          isOn && rules.length
            ? element(
                "details",
                {"data-key": `rules of ${name}`},
                element("summary", {}, countText(rules.length, "rule")),
                rules.map((rule) => ruleSwitch(editing, settings, rule)),
              )
            : null,
        );
      }),
    ),
  );
}

function ruleSwitch({data, allow}, settings, {address, value, why, title: rule}) {
  const isOn = (settings.decisions[address] ?? value) !== false;
  const box = element("input", {
    type: "checkbox",
    checked: isOn,
    "aria-label": `rule ${address}`,
    onchange: () => allow(address, box.checked),
  });
  return element(
    "label",
    {class: "switch-row rule-switch", title: clip(data.rules.get(rule)?.explanation || why, 600)},
    box,
    element("span", {class: "mono"}, rule),
    element("span", {class: "quiet-text"}, clip(why, 60)),
  );
}

// The names in the order that was asked for; those that it doesn't name keep their places.
function inOrder(names, order) {
  const wanted = order.filter((name) => names.includes(name));
  return names.map((name) => (order.includes(name) ? wanted.shift() : name));
}
