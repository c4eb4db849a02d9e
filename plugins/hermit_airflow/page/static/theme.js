// Light or dark as Airflow is. The page lives in an iframe of the same origin, so that it can look at the class
// that Airflow puts on its own document; opened on its own, it follows Airflow's stored choice, then the system.

const KEY = "theme";

function parentRoot() {
  try {
    return window.parent !== window ? window.parent.document.documentElement : null;
  } catch {
    return null;
  }
}

function wanted(system) {
  const root = parentRoot();
  if (root?.classList.contains("dark")) return "dark";
  if (root?.classList.contains("light")) return "light";
  const stored = localStorage.getItem(KEY);
  if (stored === "dark" || stored === "light") return stored;
  return system.matches ? "dark" : "light";
}

export function followTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const own = document.documentElement;
    own.setAttribute("data-theme", wanted(system));
    const ground = parentRoot() && getComputedStyle(parentRoot().querySelector("body")).backgroundColor;
    if (ground && !ground.endsWith(", 0)")) own.style.setProperty("--ground", ground);
  };
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  const root = parentRoot();
  if (root) new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["class"] });
}
