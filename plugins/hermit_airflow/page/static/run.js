// A run's tab: what it did step by step, and its report.

import { get, poll } from "./api.js";
import { h, Parts } from "./dom.js";
import { bytes, count, seconds, tombstone } from "./format.js";
import { facts, runHead, stepBars, trouble } from "./pieces.js";

const PERIOD_MS = 1000;

function outcome(report) {
  return h(
    "div",
    { class: "card" },
    h("h2", {}, `Report: ${report.outcome}`),
    report.source_of_truth
      ? h("p", {}, "The truth is ", h("span", { class: `truth ${report.source_of_truth}` }, report.source_of_truth), `: ${report.why}.`)
      : null,
    facts([
      report.decision && ["decision", [h("code", {}, report.decision.next), `: ${report.decision.reason}`]],
      ["protocol", report.protocol],
      report.staged && ["staged", stagedWords(report)],
      report.staged && ["digest", h("code", {}, report.staged.digest)],
    ]),
    report.epochs ? epochs(report) : null,
    report.digests ? digests(report.digests) : null,
    h("details", { "data-key": "raw" }, h("summary", {}, "As JSON"), h("pre", {}, JSON.stringify(report, null, 1))),
  );
}

function stagedWords({ staged, decision }) {
  const words = `${count(staged.rows)} rows, ${bytes(staged.bytes)} in ${seconds(staged.seconds)}`;
  const rate = staged.rows_per_second ? `, ${count(staged.rows_per_second)} rows/s` : "";
  return words + rate + (decision?.reused ? ", reused from an earlier attempt" : "");
}

function epochs(report) {
  const line = (store) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, store),
      h("td", {}, count(report.epochs[store].before)),
      h("td", {}, count(report.epochs[store].after)),
      h("td", {}, tombstone(report.tombstones[store])),
    );
  const heads = ["", "epoch before", "epoch now", "tombstone"];
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ["stash", "persist"].map(line)),
  );
}

function digests(found) {
  return h(
    "details",
    { "data-key": "digests" },
    h("summary", {}, "Digests, equal on both sides"),
    h("table", {}, h("tbody", {}, Object.entries(found).map(([name, digest]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "mono" }, digest))))),
  );
}

function none(run) {
  const words = ["queued", "running"].includes(run.state)
    ? "The report comes with the last step."
    : "This run left no report: it did not come that far. The catalog's page says what a new run would do.";
  return h("div", { class: "card" }, h("h2", {}, "Report"), h("p", { class: "quiet" }, words));
}

export function showRun(main, dag, run) {
  const parts = new Parts();
  for (const name of ["trouble", "head", "steps", "report"]) parts.show(main, name, null, () => null);
  const polling = poll(PERIOD_MS, async () => {
    try {
      const found = await get(`runs/${encodeURIComponent(dag)}/${encodeURIComponent(run)}`);
      parts.show(main, "trouble", null, () => null);
      const { dag_id, run_id, direction, dry_run, state, start, end, by, organization_id } = found;
      parts.show(main, "head", { dag_id, run_id, direction, dry_run, state, start, end, by, organization_id }, (data) =>
        h(
          "header",
          {},
          h("p", { class: "crumbs" }, organization_id ? ["Catalog ", h("a", { href: `?organization=${organization_id}`, class: "mono" }, organization_id)] : null),
          h("p", { class: "lead" }, runHead(data)),
        ),
      );
      parts.show(main, "steps", { tasks: found.tasks, at: state === "running" ? Math.floor(Date.now() / 1000) : 0 }, () => h("div", { class: "card" }, h("h2", {}, "Steps"), stepBars(found)));
      parts.show(main, "report", { report: found.report, state }, () => (found.report ? outcome(found.report) : none(found)));
      if (["success", "failed"].includes(state)) polling.stop();
    } catch (error) {
      trouble(parts, main, error);
    }
  });
}
