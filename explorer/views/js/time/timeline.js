// When everything runs: a row per track (a queue, a thread, the host) with gaps shown as what they
// are, below each launch what the cost model predicted of it, and the compiler's passes on a clock
// of their own. Beside it what all of it adds up to, by kernel and by node of the model.

import {areaSums} from "./area.js";
import {button, element, tabRow} from "../ground/dom.js";
import {saveText} from "../ground/download.js";
import {launchesOf, notMeasured} from "../measures/launches.js";
import {countText, secondsText} from "../ground/numbers.js";
import {stallLegend} from "./cycles.js";
import {shareBars} from "./shares.js";
import {decodeTracks, isGap, isShare, spanText} from "./spans.js";
import {trackPlot} from "./track_plot.js";

const BAR_VIEWS = [
  {id: "time", label: "in time", title: "every launch in its place in time"},
  {id: "kernel", label: "by kernel", title: "the launches of a kernel taken together"},
  {
    id: "source",
    label: "by source node",
    title: "the launches that come from the same nodes of the model taken together",
  },
];

const TALL = 420; // pixels

export async function timelineView(app) {
  const {data, store} = app;
  if (!data.head.has.profile) return {node: notMeasured(app)};
  const profile = await data.profile();
  const tracks = await data.once("tracks", async () => decodeTracks(await data.chunk("timeline")));
  const {bars} = store.get();
  const views = tabRow(BAR_VIEWS, bars, (next) => store.set({bars: next}), "bars");
  views.classList.add("segmented");
  const facts = factsOf(profile, tracks);
  const view = bars === "time" ? timeBars(app, profile, tracks) : shareBars(app, profile, bars);
  return {
    ...view,
    aside: element(
      "span",
      {class: "aside-row"},
      element(
        "span",
        {class: "quiet-text aside-note", title: `${profile.device}\n${facts.join(" · ")}`},
        facts.join(" · "),
      ),
      view.aside || null,
      views,
    ),
  };
}

const isLaunch = (span) => !isGap(span) && !isShare(span);

function factsOf(profile, tracks) {
  const flops = profile.events.reduce((sum, event) => sum + event.flops, 0);
  const spans = tracks.groups[0].tracks.flatMap(({spans}) => spans.filter(isLaunch));
  const {clock} = tracks.groups[0];
  const known = spans.filter(({predicted}) => predicted !== null);
  const predicted = known.reduce((sum, span) => sum + span.predicted, 0);
  return [
    clock ? countText(clock.cycles, "cycle") : "",
    `${secondsText(profile.milliseconds / 1e3)} per inference`,
    known.length
      ? `${secondsText(predicted / 1e9)} predicted` +
        (known.length < spans.length ? ` of ${countText(known.length, "launch", "launches")}` : "")
      : "",
    clock ? "" : countText(profile.threads, "thread"),
    launchesText(profile.events),
    clock ? "the same in every run" : `median of ${profile.repeats}`,
    flops
      ? `${(flops / (profile.milliseconds * 1e6)).toFixed(1)} ` +
        `GFLOP/s${profile.peakGflops ? ` of ${profile.peakGflops.toFixed(0)}` : ""}`
      : "",
  ].filter(Boolean);
}

// Copies to and from a device are events too, but no kernel runs in them.
function launchesText(events) {
  const counted = events.filter((event) => event.cycles).length;
  const launches = events.filter((event) => event.kernel && !event.cycles).length;
  const transfers = events.filter((event) => !event.kernel && !event.operation).length;
  const others = events.length - counted - launches - transfers;
  return [
    counted ? countText(counted, "event") : "",
    launches || !counted ? countText(launches, "launch", "launches") : "",
    others ? `${countText(others, "operation")} on the host` : "",
    transfers ? countText(transfers, "transfer") : "",
  ]
    .filter(Boolean)
    .join(" and ");
}

function timeBars(app, profile, tracks) {
  const {data, store} = app;
  const side = element("aside", {class: "area-side scroll", hidden: true});
  const host = element("div", {class: "timeline"});
  const scroll = element("div", {class: "timeline-tracks scroll"});
  const latency = 1e6 * profile.milliseconds;
  const passOf = (span) => data.head.passes.findIndex(({name}) => name === span.name);
  const plots = tracks.groups.map((group) => {
    const isInference = group.name === "inference";
    const plot = trackPlot(app, group, {
      host,
      flows: isInference ? tracks : null,
      line: isInference ? {at: latency, text: "latency, without timing of launches"} : null,
      title: isInference ? "" : "passes of the compiler",
      marked: () => (isInference ? launchesOf(app) : new Set()),
      isCurrent: (span) => !isInference && data.head.passes[store.get().pass]?.name === span.name,
      choose(span) {
        if (span.operation) app.select(span.operation, "dock");
        else if (span.kind === "pass" && passOf(span) >= 0) app.goToPass(passOf(span));
      },
      find: () => find.querySelector("input")?.focus(),
      onarea(area) {
        for (const other of plots) if (other !== plot) other.mark(null);
        side.hidden = area === null;
        if (area) side.replaceChildren(areaSums(app, group, area, () => plot.mark(null)));
        for (const other of plots) other.resized();
      },
    });
    const legend = stallLegend(group);
    scroll.append(plot.node, ...(legend ? [legend] : []));
    return plot;
  });
  host.append(scroll, side);
  const find = findField(tracks, (span) => {
    const index = tracks.groups.findIndex(({tracks: rows}) =>
      rows.some(({spans}) => spans.includes(span)),
    );
    plots[index].show(span);
    if (span.operation) app.select(span.operation, "dock");
  });
  const [first] = plots;
  let below = null; // where there is room: what the launches add up to
  const fillRoom = () => {
    const isTall = host.clientHeight >= TALL;
    if (isTall && !below) {
      below = shareBars(app, profile, "kernel");
      scroll.append(below.node);
    }
    if (below) below.node.hidden = !isTall;
  };
  const aside = element(
    "span",
    {class: "aside-row"},
    find,
    button("−", "shorter bars (s)", () => first.zoom(2), {class: "icon"}),
    button("+", "longer bars (w, or Ctrl and wheel)", () => first.zoom(0.5), {class: "icon"}),
    button("all", "the whole time (0)", () => first.all(), {class: "quiet"}),
    button(
      "save trace",
      "save as a Chrome trace, which ui.perfetto.dev and chrome://tracing open",
      async () => {
        const name = `${data.head.model.name}.trace.json`;
        saveText(name, JSON.stringify(await data.chunk("chrome-trace")), "application/json");
        app.say(`Saved ${name}: ui.perfetto.dev opens it.`);
      },
      {class: "quiet"},
    ),
  );
  return {
    node: host,
    aside,
    refresh() {
      for (const plot of plots) plot.refresh();
      below?.refresh();
    },
    resized() {
      fillRoom();
      for (const plot of plots) plot.resized();
    },
    hovered() {
      for (const plot of plots) plot.hovered();
    },
  };
}

// Finds spans by name, kind, kernel or node of the model; Enter leads on to the next one.
function findField(tracks, show) {
  const count = element("span", {class: "quiet-text span-count", role: "status"});
  const spans = tracks.groups.flatMap(({tracks: rows}) =>
    rows.flatMap((track) => track.spans.filter(isLaunch)),
  );
  const text = (span) =>
    [spanText(span), span.kernel, ...span.facts.map(([, value]) => value)].join(" ").toLowerCase();
  let found = [],
    at = -1,
    sought = "";
  const seek = (step) => {
    const wanted = input.value.trim().toLowerCase();
    if (wanted !== sought) {
      sought = wanted;
      at = -1;
      found = wanted ? spans.filter((span) => text(span).includes(wanted)) : [];
    }
    if (!found.length) {
      count.textContent = wanted ? "none" : "";
      return;
    }
    at = (at + step + found.length) % found.length;
    count.textContent = `${at + 1} of ${found.length}`;
    show(found[at]);
  };
  const input = element("input", {
    type: "search",
    class: "find-span",
    placeholder: "find",
    "aria-label": "find in the timeline",
    title: "name, kind, kernel or node; Enter: the next one, Shift and Enter: the one before (/)",
    onkeydown(event) {
      if (event.key === "Enter") seek(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") input.value = "";
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  });
  return element("span", {class: "span-find"}, input, count);
}
