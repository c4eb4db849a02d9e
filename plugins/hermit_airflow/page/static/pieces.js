// What several views show: badges, trouble, the bars of a run's steps.

import { openInAirflow } from "./api.js";
import { h } from "./dom.js";
import { between, count, moment, seconds } from "./format.js";

export const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);

export function trouble(parts, main, error) {
  const words =
    error.status === 401
      ? "Your login has expired: reload Airflow to log in again."
      : error.status === 403
        ? "Your role may not look at catalogs."
        : error.status
          ? error.message
          : "Airflow does not answer. What is shown may be out of date.";
  parts.show(main, "trouble", words, (text) => h("p", { class: "banner bad", role: "alert" }, text));
}

export function runLink(run) {
  const path = `/dags/${encodeURIComponent(run.dag_id)}/runs/${encodeURIComponent(run.run_id)}`;
  return h(
    "a",
    {
      href: path,
      "data-key": `run-${run.run_id}`,
      onclick: (event) => {
        event.preventDefault();
        openInAirflow(path);
      },
    },
    run.run_id,
  );
}

const WIDTH_MIN = 0.6;
const NOT_RUN = { skipped: "skipped", upstream_failed: "not reached", failed: "not reached" };

// One bar per step, on the run's own time axis.
export function stepBars(run) {
  const timed = run.tasks.filter((task) => task.start);
  if (!timed.length) return h("p", { class: "quiet" }, "No step has started.");
  const start = Math.min(...timed.map((task) => new Date(task.start)));
  const end = Math.max(...timed.map((task) => (task.end ? new Date(task.end) : Date.now())));
  const span = Math.max(end - start, 1);
  return h(
    "div",
    { class: "bars" },
    run.tasks
      .filter((task) => task.start || task.state === "skipped")
      .map((task) => {
        const worked = task.start && (task.state === "success" || between(task.start, task.end) > 0.05);
        const took = worked ? seconds(between(task.start, task.end)) : NOT_RUN[task.state] ?? task.state;
        const bar = h("div", { class: `bar ${task.state ?? "none"}`, hidden: !worked });
        if (worked) {
          const offset = ((new Date(task.start) - start) / span) * 100;
          bar.style.marginLeft = `${Math.min(offset, 100 - WIDTH_MIN)}%`;
          bar.style.width = `${Math.max(((new Date(task.end ?? Date.now()) - new Date(task.start)) / span) * 100, WIDTH_MIN)}%`;
        }
        return [
          h("span", { class: "step" }, task.task),
          h("span", { class: "track", title: `${task.state ?? "waiting"}, try ${task.tries}` }, bar),
          h("span", { class: "took" }, task.tries > 1 ? `${took}, try ${task.tries}` : took),
        ];
      }),
  );
}

export function runHead(run) {
  const what = run.direction ? (run.dry_run ? `dry run of ${run.direction}` : run.direction) : run.dag_id;
  return [
    badge(run.state, run.state),
    h("strong", {}, ` ${what} `),
    run.start ? h("span", {}, `${moment(run.start)}, ${seconds(between(run.start, run.end))}`) : "queued",
    run.outcome ? h("span", {}, `: ${run.outcome}`) : null,
    run.by ? h("span", { class: "quiet" }, ` by ${run.by}`) : null,
  ];
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export { count };
