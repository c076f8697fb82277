// What an instruction means and costs, beside the line that the pointer is over; a press on the
// line keeps it in sight below the text.

import {button, element} from "../ground/dom.js";

const REST_MILLISECONDS = 250;

// told: what the table of instructions (views/instructions) says of a text; numbers: of every line
// the form in it, -1 for none.
export function instructionHelp(pane, told, numbers) {
  const host = pane.node.parentElement;
  if (!host || !told) return;
  const tip = element("div", {class: "tip instruction-tip", role: "tooltip", hidden: true});
  const kept = element("div", {class: "instruction-kept", role: "status", hidden: true});
  host.classList.add("has-help");
  host.append(tip, kept);
  let resting = 0;
  const formAt = (row) => told.forms[numbers[Number(row?.dataset.index)]];
  const hide = () => {
    clearTimeout(resting);
    tip.hidden = true;
  };
  pane.node.addEventListener("mouseover", (event) => {
    const row = event.target.closest?.(".line");
    hide();
    const form = formAt(row);
    if (!form) return;
    resting = setTimeout(() => {
      tip.replaceChildren(...aboutForm(form, told));
      tip.hidden = false;
      const frame = host.getBoundingClientRect();
      const box = row.getBoundingClientRect();
      const below = box.bottom - frame.top + 4;
      const fits = below + tip.offsetHeight < frame.height;
      tip.style.top = `${fits ? below : Math.max(4, box.top - frame.top - tip.offsetHeight - 4)}px`;
      tip.style.left = `${Math.max(4, Math.min(72, frame.width - tip.offsetWidth - 8))}px`;
    }, REST_MILLISECONDS);
  });
  pane.node.addEventListener("mouseleave", hide);
  pane.node.addEventListener("scroll", hide, {passive: true});
  pane.node.addEventListener("click", (event) => {
    const form = formAt(event.target.closest?.(".line"));
    if (!form) return;
    hide();
    kept.replaceChildren(
      element("div", {class: "instruction-words"}, aboutForm(form, told)),
      button(
        "×",
        "close",
        () => {
          kept.hidden = true;
        },
        {class: "icon", "aria-label": "close the explanation"},
      ),
    );
    kept.hidden = false;
  });
}

function aboutForm([mnemonic, form, name, meaning, operands, latency, throughput], told) {
  const head = element(
    "div",
    {},
    element("strong", {class: "mono"}, mnemonic),
    name ? ` ${name}` : " is not described here",
  );
  if (!name) return [head];
  const isMemory = /\bm\b/.test(form.slice(mnemonic.length));
  return [
    head,
    element("div", {}, meaning),
    operands === "none" ? null : element("div", {class: "quiet-text"}, `operands: ${operands}`),
    element(
      "div",
      {class: "quiet-text"},
      latency === null
        ? `its cycles on ${told.family || "this processor"} are not known here`
        : `${told.family}: ${cycles(latency)} until its result is there` +
            `${isMemory ? ", with its access to the nearest cache" : ""}; ` +
            `one every ${cycles(throughput)} (${told.source})`,
    ),
    told.wanted && told.wanted !== told.family
      ? element(
          "div",
          {class: "quiet-text"},
          `there is no table of ${told.wanted}: this is the nearest one`,
        )
      : null,
  ].filter((part) => part !== null);
}

function cycles(count) {
  return count === 1 ? "1 cycle" : `${count} cycles`;
}
