// Small helpers to make elements, and to replace a part of the page only when what it shows has changed.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

// Parts of the page by name. One is drawn anew only if its data differ, so that focus, text selection and
// open disclosures survive the polling.
export class Parts {
  #shown = new Map();

  show(container, name, data, draw) {
    const text = JSON.stringify(data);
    let part = container.querySelector(`:scope > [data-part="${name}"]`);
    if (!part) {
      part = h("section", { "data-part": name });
      container.append(part);
      this.#shown.delete(name);
    }
    if (this.#shown.get(name) === text) return;
    this.#shown.set(name, text);
    const focused = part.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const open = new Set([...part.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key));
    const drawn = draw(data);
    part.replaceChildren(...[drawn].flat(3).filter(Boolean));
    part.hidden = part.childNodes.length === 0;
    for (const one of part.querySelectorAll("details[data-key]")) one.open ||= open.has(one.dataset.key);
    if (focused) part.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
}

export function notice(text, kind = "info") {
  const place = document.getElementById("notice");
  place.className = kind;
  place.textContent = text;
  if (text && kind !== "lasting") setTimeout(() => place.textContent === text && (place.textContent = ""), 8000);
}
