// The list of all catalogs.

import { get, poll } from "./api.js";
import { h, Parts } from "./dom.js";
import { sentence } from "./format.js";
import { badge, trouble } from "./pieces.js";

const PERIOD_MS = 2000;

function row(catalog) {
  const address = `?organization=${catalog.organization_id}`;
  const link = h("a", { href: address, class: "mono", "data-key": catalog.organization_id }, catalog.organization_id);
  if (catalog.error) return h("tr", {}, h("td", {}, link), h("td", { colspan: "5", class: "bad" }, catalog.error));
  return h(
    "tr",
    { "data-organization": catalog.organization_id },
    h("td", {}, link, catalog.place === "default" ? null : h("span", { class: "quiet" }, ` ${catalog.place}`)),
    h("td", {}, badge(catalog.source_of_truth, catalog.source_of_truth)),
    h("td", {}, `${sentence(catalog.why)} `, state(catalog)),
    h("td", {}, catalog.protocol),
    h("td", { class: "number" }, String(catalog.epoch)),
    h("td", {}, catalog.active.map((run) => badge("running", `${run.dag_id} ${run.state}`))),
  );
}

// What the filter looks at: everything that a line says.
function words(catalog) {
  const state = catalog.reachable === false ? "unreachable" : catalog.settled === false ? "half-way" : "";
  return `${JSON.stringify(Object.values(catalog))} ${state}`.toLowerCase();
}

function state(catalog) {
  if (!catalog.reachable) return badge("bad", "unreachable");
  if (!catalog.settled) return badge("half", "half-way");
  return null;
}

function table(catalogs) {
  if (!catalogs.length) return h("p", { class: "quiet" }, "No catalog fits.");
  const heads = ["Catalog", "Truth", "Why", "Protocol", "Epoch", "Under way"];
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "list" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head === "Epoch" ? "number" : null }, head)))),
      h("tbody", {}, catalogs.map(row)),
    ),
  );
}

function tally(catalogs) {
  const on = (store) => catalogs.filter((one) => one.source_of_truth === store).length;
  const half = catalogs.filter((one) => one.reachable && !one.settled).length;
  const running = catalogs.filter((one) => one.active?.length).length;
  const words = [`${catalogs.length} in all`, `${on("stash")} on stash`, `${on("persist")} on persist`];
  if (half) words.push(`${half} half-way`);
  if (running) words.push(`${running} under way`);
  return words.join(" · ");
}

export function showList(main) {
  const parts = new Parts();
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter catalogs", "data-key": "filter" });
  const summary = h("p", { class: "quiet" });
  main.append(h("header", { class: "row" }, h("div", {}, h("h1", {}, "Catalogs"), summary), filter));
  let found = { catalogs: [], silent: [] };
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const fits = (one) => words(one).includes(wanted);
    summary.textContent = tally(found.catalogs);
    parts.show(main, "silent", found.silent, (silent) => silent.map((one) => h("p", { class: "banner bad" }, one.error)));
    parts.show(main, "table", found.catalogs.filter(fits), (shown) => h("div", { class: "card" }, table(shown)));
  };
  filter.addEventListener("input", draw);
  poll(PERIOD_MS, async () => {
    try {
      found = await get("catalogs");
      parts.show(main, "trouble", null, () => null);
      draw();
    } catch (error) {
      trouble(parts, main, error);
    }
  });
}
