// The time line of passes: a dot for the check after each, what it did to the number of
// operations, its time; passes that changed nothing fold away; the current one lists its rewrites
// by rule, and on demand the candidates that were declined, with the reason.

import {button, element, replace} from "../ground/dom.js";
import {
  amountText,
  changeText,
  countText,
  decode,
  judgedText,
  exactText,
  secondsText,
} from "../ground/numbers.js";
import {about} from "../desk/pressed_numbers.js";
import {FIXED} from "../ground/lever_words.js";
import {ruleLink} from "../code/rule.js";
import {clip} from "../ground/scene.js";

const SITES_SHOWN = 60;

export function passesPane(app) {
  const {data, store} = app;
  const list = element("ol", {class: "passes", "aria-label": "passes"});
  const scroller = element("div", {class: "scroll"}, list);
  const slider = element("input", {
    type: "range",
    min: 0,
    max: data.head.passes.length - 1,
    step: 1,
    value: 0,
    "aria-label": "pass",
    oninput: () => app.goToPass(nearestStop(Number(slider.value))),
  });
  const position = element("span", {class: "quiet-text"});
  const unchanged = data.head.passes.filter((pass, index) => index > 0 && !pass.changed).length;
  const filter = button(
    "changes",
    `leave out the ${countText(unchanged, "pass", "passes")} that changed nothing (u)`,
    () => store.set({onlyChanges: !store.get().onlyChanges}),
    {class: "quiet", "aria-label": "only passes that changed something", hidden: !unchanged},
  );
  const node = element(
    "nav",
    {class: "pane passes-pane", "aria-label": "passes", "data-about": FIXED.passes},
    element(
      "header",
      {class: "pane-head"},
      element("span", {class: "pane-title"}, "Passes"),
      element("span", {class: "grow"}),
      position,
      filter,
    ),
    scroller,
    element(
      "footer",
      {class: "scrub"},
      button("‹", "pass before (k)", () => app.stepPass(-1), {class: "icon"}),
      slider,
      button("›", "next pass (j)", () => app.stepPass(1), {class: "icon"}),
    ),
  );

  const longest = Math.max(...data.head.passes.map((pass) => decode(pass.seconds)), 1e-9);
  const opened = new Set(); // runs of unchanged passes that were unfolded, by their first index
  let showsDeclined = false;
  let openRules = new Set();
  let isComing = true; // the current pass is new here, and its rewrites are not there yet

  function nearestStop(pass) {
    const stops = data.head.passes.map((_, index) => index).filter(app.isStop);
    return stops.reduce((best, stop) =>
      Math.abs(stop - pass) < Math.abs(best - pass) ? stop : best,
    );
  }

  function draw() {
    const {pass: current, onlyChanges} = store.get();
    filter.setAttribute("aria-pressed", String(onlyChanges));
    slider.value = current;
    slider.setAttribute("aria-valuetext", data.head.passes[current].name);
    position.textContent = `${current + 1} / ${data.head.passes.length}`;
    position.title = `pass ${current + 1} of ${data.head.passes.length}`;
    const rows = [];
    const passes = data.head.passes;
    for (let index = 0; index < passes.length; index += 1) {
      if (onlyChanges && !app.isStop(index) && index !== current) {
        rows.push(...switchedOff(passes[index].name));
        continue;
      }
      let end = index;
      while (end < passes.length && !passes[end].changed && end > 0) end += 1;
      if (end - index < 2 || onlyChanges) {
        rows.push(passRow(index), ...switchedOff(passes[index].name));
        continue;
      }
      const holdsCurrent = current >= index && current < end;
      const isOpen = holdsCurrent || opened.has(index);
      if (!holdsCurrent) rows.push(foldRow(index, end));
      for (let inner = index; inner < end; inner += 1)
        rows.push(isOpen ? passRow(inner) : null, ...switchedOff(passes[inner].name));
      index = end - 1;
    }
    // Without a place of their own (nothing is known of a branch with them) they come last.
    rows.push(...switchedOff(""));
    replace(list, rows);
  }

  // Passes that are switched off, where they stood: behind the pass of that name.
  function switchedOff(after) {
    const {session} = app;
    if (!session) return [];
    const places = session.switchedOffAfter();
    return session
      .switchedOff()
      .filter((name) => (places[name] ?? "") === after)
      .map((name) =>
        element(
          "li",
          {class: "pass off"},
          element(
            "div",
            {class: "pass-row"},
            session.passSwitch(name, false),
            element("span", {class: "pass-name"}, name),
            element("span", {class: "quiet-text"}, "switched off"),
          ),
        ),
      );
  }

  function foldRow(first, end) {
    const names = data.head.passes
      .slice(first, end)
      .map((pass) => pass.name)
      .join(", ");
    return element(
      "li",
      {class: "fold"},
      button(
        `${end - first} unchanged`,
        names,
        () => {
          if (!opened.delete(first)) opened.add(first);
          draw();
          list.querySelector(`[data-fold="${first}"]`)?.focus();
        },
        {"aria-expanded": String(opened.has(first)), "data-fold": first},
      ),
    );
  }

  function passRow(index) {
    const pass = data.head.passes[index];
    const isCurrent = index === store.get().pass;
    const check = app.look.verdict(pass.check);
    const worst = pass.worst === null ? "" : `, worst tensor ${judgedText(pass)}`;
    const seconds = decode(pass.seconds);
    const bar = element("span", {
      class: "time-bar",
      title: `${secondsText(seconds)} of ${secondsText(decode(data.head.summary.seconds))}`,
    });
    bar.style.setProperty("--share", `${Math.max(1, (100 * seconds) / longest)}%`);
    const row = element(
      "button",
      {
        type: "button",
        class: `pass-row ${pass.changed ? "" : "unchanged"}`,
        "data-pass": index,
        "aria-current": isCurrent ? "step" : null,
        title: pass.description,
        onclick: () => app.goToPass(index),
      },
      element(
        "span",
        {
          class: `dot ${pass.check}`,
          title: check.title + worst,
          role: "img",
          "aria-label": check.title,
        },
        check.glyph,
      ),
      element("span", {class: "pass-name"}, pass.name),
      element(
        "span",
        {
          class: "change",
          title: `${exactText(pass.before)} operations before, ${exactText(pass.after)} after`,
        },
        index === 0 || pass.before === pass.after ? "" : changeText(pass.before, pass.after),
      ),
      element("span", {class: "operations"}, exactText(pass.after)),
      bar,
    );
    const item = element(
      "li",
      {class: `pass${isCurrent ? " current" : ""}`},
      element(
        "div",
        {class: "pass-line"},
        app.session?.isOptional(pass.name) ? app.session.passSwitch(pass.name, true) : null,
        row,
      ),
    );
    if (isCurrent) item.append(details(index, pass));
    return item;
  }

  function details(index, pass) {
    const host = element(
      "div",
      {class: "pass-details"},
      element("p", {class: "description"}, pass.description),
    );
    const fact = (moves, text) => element("span", about(moves), text);
    const time = secondsText(decode(pass.seconds));
    const line = element(
      "p",
      {class: "quiet-text"},
      `${pass.level} · `,
      fact("compile_seconds", time),
      pass.worst === null ? null : [" · ", fact("sqnr_db", `worst tensor ${judgedText(pass)}`)],
    );
    data.measures().then(({macs}) => {
      if (macs[index]) line.append(" · ", fact("macs", `${amountText(macs[index])} MACs`));
    });
    host.append(line);
    if (!pass.rewrites && !pass.declined) {
      host.append(
        element(
          "p",
          {class: "quiet-text"},
          pass.level === "source" || index === 0
            ? "The model as it was read."
            : pass.changed
              ? "No single rewrites were recorded."
              : "Nothing to do here.",
        ),
      );
      return host;
    }
    const rules = element(
      "div",
      {class: "rules"},
      element("p", {class: "quiet-text"}, "loading rewrites"),
    );
    const replay = () => store.set({dock: "rewrites"});
    host.append(
      rules,
      button("one by one", "the program before and after each rewrite (w)", replay, {
        class: "quiet",
      }),
    );
    data.passDetails(index).then(
      ({events}) => {
        replace(rules, ruleList(events.filter((event) => event.applied)), declined(events, pass));
        if (isComing) showCurrent();
        isComing = false;
      },
      (failure) =>
        replace(
          rules,
          element(
            "p",
            {class: "ink-wrong"},
            `The rewrites could not be loaded: ${failure.message}`,
          ),
        ),
    );
    return host;
  }

  function ruleList(events) {
    const byRule = new Map();
    for (const event of events) {
      if (!byRule.has(event.rule)) byRule.set(event.rule, []);
      byRule.get(event.rule).push(event);
    }
    return [...byRule].map(([rule, fired]) => {
      const holdsCurrent = fired.some((event) => event.index === store.get().rewrite);
      const isOpen = openRules.has(rule) || holdsCurrent;
      const about = data.rules.get(rule);
      return element(
        "div",
        {class: "rule"},
        element(
          "button",
          {
            type: "button",
            class: "rule-row",
            "aria-expanded": String(isOpen),
            title: about?.source,
            onclick: () => {
              if (openRules.has(rule)) openRules.delete(rule);
              else openRules.add(rule);
              draw();
            },
          },
          element("span", {class: "twist"}, isOpen ? "▾" : "▸"),
          element("span", {class: "rule-name"}, rule),
          element("span", {class: "times"}, `×${fired.length}`),
        ),
        isOpen
          ? [
              element(
                "p",
                {class: "explanation"},
                about?.explanation || "This rule has no explanation.",
                " ",
                ruleLink(app, rule),
              ),
              sites(fired),
            ]
          : null,
      );
    });
  }

  function sites(events) {
    const rewrite = store.get().rewrite;
    // The current rewrite is shown even when it lies beyond the cap.
    const shown = events.filter(
      (event, position) => position < SITES_SHOWN || event.index === rewrite,
    );
    return element(
      "ul",
      {class: "sites"},
      shown.map((event) =>
        element(
          "li",
          {},
          element(
            "button",
            {
              type: "button",
              class: "site",
              "aria-current": event.index === rewrite ? "true" : null,
              "data-rewrite": event.index,
              title: `${event.address}\n${secondsText(event.microseconds / 1e6)}`,
              onclick: () => app.goToRewrite(event),
            },
            siteText(event),
          ),
        ),
      ),
      events.length > shown.length
        ? element(
            "li",
            {class: "cap"},
            `${events.length - shown.length} more; J and K step through all of them`,
          )
        : null,
    );
  }

  function declined(events, pass) {
    if (!pass.declined) return null;
    const refused = events.filter((event) => !event.applied);
    return element(
      "div",
      {class: "declined"},
      element(
        "button",
        {
          type: "button",
          class: "rule-row",
          "aria-expanded": String(showsDeclined),
          onclick: () => {
            showsDeclined = !showsDeclined;
            draw();
          },
        },
        element("span", {class: "twist"}, showsDeclined ? "▾" : "▸"),
        element("span", {class: "rule-name"}, "declined candidates"),
        element("span", {class: "times"}, `×${pass.declined}`),
      ),
      showsDeclined
        ? element(
            "ul",
            {class: "sites"},
            refused.slice(0, SITES_SHOWN).map((event) =>
              element(
                "li",
                {},
                element(
                  "button",
                  {
                    type: "button",
                    class: "site",
                    title: event.address,
                    "data-rewrite": event.index,
                    "aria-current": event.index === store.get().rewrite ? "true" : null,
                    onclick: () => app.goToRewrite(event),
                  },
                  element("span", {}, event.site),
                  element("span", {class: "reason"}, `${event.rule}: ${event.reason}`),
                ),
              ),
            ),
            refused.length > SITES_SHOWN
              ? element("li", {class: "cap"}, `${refused.length - SITES_SHOWN} more are not shown`)
              : null,
          )
        : null,
    );
  }

  store.subscribe((_, changed) => {
    if (changed.has("pass")) {
      openRules = new Set();
      isComing = true;
    }
    if (!["pass", "rewrite", "onlyChanges"].some((name) => changed.has(name))) return;
    draw();
    showCurrent();
  });

  // The current pass with what it did, and then the rewrite that is looked at, or else its name.
  // Nothing but this list is scrolled: there may be a notebook around it.
  function showCurrent() {
    const row = list.querySelector('[aria-current="step"]');
    const chosen = list.querySelector('[data-rewrite][aria-current="true"]');
    for (const part of [row?.closest(".pass"), chosen ?? row]) {
      if (!part) continue;
      const seen = scroller.getBoundingClientRect(),
        box = part.getBoundingClientRect();
      if (box.bottom > seen.bottom) scroller.scrollTop += box.bottom - seen.bottom;
      if (part.getBoundingClientRect().top < seen.top)
        scroller.scrollTop -= seen.top - part.getBoundingClientRect().top;
    }
  }
  return {node, draw, showCurrent};
}

// conv_3, relu_4 → conv_3
function siteText(event) {
  const matched = event.matched.length ? event.matched : [event.site];
  const names = (list) =>
    clip(list.slice(0, 3).join(", ") + (list.length > 3 ? ` +${list.length - 3}` : ""), 34);
  return event.produced.length ? `${names(matched)} → ${names(event.produced)}` : names(matched);
}
