// One catalog: state, buttons, both stores, what is staged, the moves; all of it kept current by itself.

import { get, poll, post } from "./api.js";
import { diagram, fromHere } from "./diagram.js";
import { h, notice, Parts } from "./dom.js";
import { bytes, count, moment, seconds, sentence, tombstone } from "./format.js";
import { badge, runHead, runLink, stepBars, trouble } from "./pieces.js";

const PERIOD_MS = 1000;
const STORES = ["stash", "persist"];
const LABELS = { migrate: "Migrate", rollback: "Roll back", dry_run: "Dry run", verify: "Verify" };

const ENDED = ["success", "failed", "skipped", "upstream_failed", "removed"];

const card = (title, ...children) => h("div", { class: "card" }, h("h2", {}, title), ...children);

function head(catalog) {
  return h(
    "header",
    {},
    h("p", { class: "crumbs" }, h("a", { href: "?", "data-key": "all" }, "Catalogs"), " / ", h("span", { class: "mono" }, catalog.organization_id)),
    h(
      "h1",
      {},
      "The truth is ",
      h("span", { class: `truth ${catalog.source_of_truth}`, "data-truth": catalog.source_of_truth }, catalog.source_of_truth),
    ),
    h(
      "p",
      { class: "why" },
      `${sentence(catalog.why)}. `,
      badge("plain", `${catalog.protocol}-tombstone protocol`),
      catalog.reachable ? null : badge("bad", "unreachable state"),
      catalog.reachable && !catalog.settled ? badge("half", "half-way") : null,
    ),
  );
}

// The move to lead with: the one to resume, or else the one that takes the truth to the other store.
const lead = (catalog) => catalog.half_way?.direction ?? (catalog.source_of_truth === "stash" ? "migrate" : "rollback");

// Buttons that may not be used stay where the keyboard finds them, and say why.
function buttons({ actions, organization_id, lead }, refresh) {
  return h(
    "div",
    { class: "actions", role: "group", "aria-label": "Start" },
    actions.map((action) => {
      const id = `why-${action.action}`;
      const off = action.disabled !== null;
      return h(
        "div",
        { class: "action" },
        h(
          "button",
          {
            type: "button",
            class: action.action === lead ? "main" : null,
            "data-key": action.action,
            "data-action": action.action,
            "aria-disabled": off ? "true" : null,
            "aria-describedby": id,
            onclick: () => !off && ask(action, organization_id, refresh),
          },
          LABELS[action.action],
        ),
        h("p", { id, class: "reason" }, off ? action.disabled : `starts ${action.dag_id}`),
      );
    }),
  );
}

function ask(action, organization, refresh) {
  const conf = Object.entries(action.conf).filter(([name]) => name !== "protocol").map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, JSON.stringify(value))]);
  const protocol = h("select", { id: "ask-protocol" }, ["single", "double"].map((name) => h("option", { value: name, selected: name === action.conf.protocol }, name)));
  const pace = h("input", { type: "number", id: "ask-pace", min: 1, placeholder: "any" });
  const approve = h("input", { type: "checkbox", id: "ask-approve" });
  const isMove = action.action === "migrate" || action.action === "rollback";
  const choices = isMove
    ? h(
        "div",
        { class: "choices" },
        h("label", { for: "ask-protocol" }, "Protocol ", protocol),
        h("label", { for: "ask-pace" }, "At most ", pace, " rows per second"),
        h("label", { for: "ask-approve" }, approve, " Wait for an approval before the cut-over"),
      )
    : null;
  const go = h("button", { type: "submit", class: "main", value: "go", autofocus: true }, LABELS[action.action]);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "ask-title" },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "ask-title" }, `${LABELS[action.action]}?`),
      h("p", {}, "This starts ", h("code", {}, action.dag_id), " with"),
      h("dl", { class: "facts" }, conf),
      choices,
      h("div", { class: "row end" }, h("button", { type: "submit", value: "" }, "Cancel"), go),
    ),
  );
  dialog.addEventListener("close", async () => {
    dialog.remove();
    document.querySelector(`[data-action="${action.action}"]`)?.focus();
    if (dialog.returnValue !== "go") return;
    try {
      const started = await post(`catalogs/${organization}/runs`, isMove ? { action: action.action, protocol: protocol.value, approve_cut_over: approve.checked, max_rows_per_second: pace.valueAsNumber || null } : { action: action.action });
      notice(`Started ${started.run_id}`);
    } catch (error) {
      notice(`Not started: ${error.message}`, "bad");
    }
    refresh();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function halfWay({ half, next }) {
  if (!half) return null;
  const plan = next[half.direction];
  return h(
    "div",
    { class: "banner half", role: "status" },
    h("h2", {}, "A move stopped half-way"),
    h("p", {}, `${sentence(half.why)}. The truth has not moved. Resumed with `, h("strong", {}, LABELS[half.direction]), ", the run ", outlook(plan)),
    steps(plan),
  );
}

function outlook(plan) {
  if (plan.next === "refuse") return `refuses: ${plan.reason}.`;
  if (plan.next === "nothing_to_do") return `has nothing to do: ${plan.reason}.`;
  return [h("span", {}, "goes on with "), h("code", { "data-next": plan.next }, plan.next), `: ${plan.reason}.`];
}

const steps = (plan) =>
  h("ol", { class: "steps" }, plan.steps.map((one) => h("li", { class: one.runs ? "runs" : "passed" }, one.step, one.runs ? null : h("span", { class: "hidden" }, " (passed over)"))));

function running({ active, progress }) {
  return active.map((run) => {
    const task = run.tasks.find((one) => one.start && !ENDED.includes(one.state));
    const asks = task?.task === "approve";
    return h(
      "div",
      { class: "card running", role: "status" },
      h("h2", {}, h("span", { class: "pulse", "aria-hidden": "true" }), `${run.direction ?? run.dag_id} is ${run.state}`, task ? h("span", { class: "quiet" }, asks ? ": it waits for an approval" : `: ${task.task}`) : null),
      progress.filter((one) => one.direction === run.direction).map(gauge),
      stepBars(run),
      h("p", { class: "quiet" }, runLink(run)),
    );
  });
}

function gauge(one) {
  const share = one.rows_total ? Math.min(one.rows_done / one.rows_total, 1) : 0;
  const bar = h("div", { class: "gauge-bar" });
  bar.style.width = `${share * 100}%`;
  const words = [
    `${count(one.rows_done)} of ${count(one.rows_total)} rows`,
    `${bytes(one.bytes_done)}`,
    one.rows_per_second ? `${count(Math.round(one.rows_per_second))} rows/s` : null,
    one.seconds_left === null || one.seconds_left === undefined ? null : `${seconds(one.seconds_left)} left`,
    one.partitions ? `${one.partitions_done} of ${one.partitions} partitions` : null,
  ];
  return h(
    "div",
    {},
    h("div", { class: "gauge", role: "progressbar", "aria-valuenow": Math.round(share * 100), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "Rows staged" }, bar),
    h("p", {}, words.filter(Boolean).join(" · ")),
  );
}

const ROWS = [
  ["epoch", "epoch", count],
  ["tombstone", "tombstone", tombstone],
  ["deploy_generation", "deploy generation", count],
  ["format_version", "format version", count],
  ["upper", "upper", count],
  ["since", "since", count],
  ["opened_by", "opened by", (value) => value ?? "–"],
];

function stores(data, work) {
  const line = (name, cells) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell)));
  const sizes = data.contents;
  const digest = (side, store) => {
    if (side.digest_state === "known") return h("code", {}, side.digest);
    if (side.digest_state === "working") return "working…";
    const label = `Work out the digest of ${store}`;
    const again = side.digest_state === "failed" ? "It failed. " : null;
    return [again, h("button", { type: "button", class: "small", "data-key": `digest-${store}`, "aria-label": label, onclick: work }, "Work it out")];
  };
  const same = sizes && sizes.stash.digest && sizes.stash.digest === sizes.persist.digest;
  return card(
    "Both stores",
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "stores" },
        h("thead", {}, h("tr", {}, h("td", {}), STORES.map((store) => h("th", { scope: "col" }, store, data.truth === store ? badge(store, "truth") : null)))),
        h(
          "tbody",
          {},
          ROWS.map(([field, name, show]) => line(name, STORES.map((store) => show(data[store][field])))),
          sizes && line("rows", STORES.map((store) => count(sizes[store].rows))),
          sizes && line("bytes", [bytes(sizes.stash.bytes) + " of keys and values", bytes(sizes.persist.bytes) + " of files"]),
          sizes && line("digest", STORES.map((store) => digest(sizes[store], store))),
          line("last merged", [data.consolidated ? `consolidated ${moment(data.consolidated)}` : "–", data.compacted_ms ? `compacted ${moment(data.compacted_ms)}` : "–"]),
        ),
      ),
    ),
    same ? h("p", { class: "quiet" }, "Both sides hold the same rows.") : null,
    sizes ? collections(sizes) : h("p", { class: "quiet" }, "Counting rows…"),
  );
}

function collections(sizes) {
  const names = [...new Set(STORES.flatMap((store) => Object.keys(sizes[store].collections)))];
  const cell = (store, name, field, show) => h("td", { class: "number" }, show(sizes[store].collections[name]?.[field]));
  return h(
    "details",
    { "data-key": "collections" },
    h("summary", { "data-key": "collections-summary" }, `Rows and bytes of ${names.length} collections`),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["collection", "stash rows", "stash bytes", "persist rows", "persist bytes"].map((name, place) => h("th", { scope: "col", class: place ? "number" : null }, name)))),
        h(
          "tbody",
          {},
          names.map((name) =>
            h("tr", {}, h("th", { scope: "row" }, name), cell("stash", name, "rows", count), cell("stash", name, "bytes", bytes), cell("persist", name, "rows", count), cell("persist", name, "bytes", bytes)),
          ),
        ),
      ),
    ),
  );
}

function staged(batches) {
  const heads = ["batch", "what", "rows", "bytes", "held by"];
  return card(
    "Staged",
    batches.length
      ? h(
          "div",
          { class: "scroll" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
            h(
              "tbody",
              {},
              batches.map((one) =>
                h("tr", {}, h("td", { class: "mono" }, one.batch), h("td", {}, `${one.kind}, ${one.direction}${one.verified ? ", verified" : ""}`), h("td", {}, count(one.rows)), h("td", {}, bytes(one.bytes)), h("td", {}, one.held_by)),
              ),
            ),
          ),
        )
      : h("p", { class: "quiet" }, "Nothing is staged."),
  );
}

function moves(runs) {
  return card(
    "Moves and maintenance",
    runs.length
      ? runs.map((run, place) =>
          h(
            "details",
            { class: "move", "data-key": `move-${run.run_id}`, open: place === 0 },
            h("summary", { "data-key": `summary-${run.run_id}` }, runHead(run)),
            stepBars(run),
            h("p", {}, h("a", { href: `?dag=${encodeURIComponent(run.dag_id)}&run=${encodeURIComponent(run.run_id)}`, "data-key": `report-${run.run_id}` }, "Report"), " · ", runLink(run)),
          ),
        )
      : h("p", { class: "quiet" }, "This Airflow has not moved it yet."),
  );
}

export async function showCatalog(main, organization) {
  const parts = new Parts();
  const path = `catalogs/${encodeURIComponent(organization)}`;
  let protocols = null;
  let contents = null;
  let measured = null;
  let polling = null;

  const measure = async (catalog, ask = false) => {
    const version = JSON.stringify([catalog.stash.content_version, catalog.persist.content_version, catalog.persist.delta_version]);
    const working = contents && STORES.some((store) => contents[store].digest_state === "working");
    if (version === measured && !working && !ask) return;
    measured = version;
    contents = await get(`${path}/contents${ask ? "?digest=true" : ""}`).catch(() => contents);
  };

  const draw = (catalog) => {
    document.title = `Catalog ${organization}`;
    parts.show(main, "trouble", null, () => null);
    const { organization_id, source_of_truth, why, protocol, reachable, settled, state } = catalog;
    parts.show(main, "head", { organization_id, source_of_truth, why, protocol, reachable, settled }, head);
    parts.show(main, "actions", { actions: catalog.actions, organization_id, lead: lead(catalog) }, (data) => buttons(data, () => polling.now()));
    parts.show(main, "half", { half: catalog.half_way, next: catalog.next }, halfWay);
    parts.show(main, "running", { active: catalog.active, progress: catalog.progress, at: catalog.active.length ? Math.floor(Date.now() / 1000) : 0 }, running);
    parts.show(main, "diagram", { protocol, state, transitions: catalog.transitions }, (data) =>
      card("State", diagram(protocols[data.protocol], data.state), h("h3", {}, "From here"), fromHere(data.transitions)),
    );
    parts.show(main, "stores", { stash: catalog.stash, persist: catalog.persist, truth: source_of_truth, consolidated: catalog.consolidated, compacted_ms: catalog.compacted_ms, contents }, (data) => stores(data, () => measure(catalog, true)));
    parts.show(main, "staged", catalog.staged, staged);
    // What is under way stands above, with its clock running.
    const ended = catalog.moves.filter((run) => !["queued", "running"].includes(run.state));
    parts.show(main, "moves", ended, moves);
  };

  for (const name of ["trouble", "head", "actions", "half", "running", "diagram", "stores", "staged", "moves"]) {
    parts.show(main, name, null, () => null);
  }
  polling = poll(PERIOD_MS, async () => {
    try {
      protocols ??= await get("protocols");
      const catalog = await get(path);
      draw(catalog);
      await measure(catalog);
      draw(catalog);
    } catch (error) {
      trouble(parts, main, error);
    }
  });
}
