// Asking the page's own interface. Addresses are relative, so that Airflow may live below a path of its own.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(path, options = {}) {
  const response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, String(body.detail ?? response.statusText));
  return body;
}

export const get = (path) => call(path);

export const post = (path, body) =>
  call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Hermit-Page": "1" },
    body: JSON.stringify(body),
  });

// Ask again and again, a while after each answer came, and not while nobody looks.
export function poll(period_ms, ask) {
  let timer = null;
  let stopped = false;
  const turn = async () => {
    timer = null;
    if (stopped || document.hidden) return;
    await ask();
    if (!stopped && !document.hidden) timer = setTimeout(turn, period_ms);
  };
  document.addEventListener("visibilitychange", () => !document.hidden && timer === null && turn());
  turn();
  return {
    stop: () => ((stopped = true), clearTimeout(timer)),
    now: () => (clearTimeout(timer), turn()),
  };
}

// Show a page of Airflow itself. The iframe may not navigate its parent, but it may tell Airflow's router.
export function openInAirflow(path) {
  const root = window.location.pathname.replace(/\/hermit\/.*$/, "");
  if (window.parent === window) {
    window.location.assign(root + path);
    return;
  }
  window.parent.history.pushState({}, "", root + path);
  window.parent.dispatchEvent(new PopStateEvent("popstate"));
}
