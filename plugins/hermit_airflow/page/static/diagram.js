// The state diagram, drawn from the nodes and edges that the server derives from the protocol's table.

import { h, svg } from "./dom.js";

const NODE = { width: 196, height: 78 };
const GAP = { x: 128, y: 66 };
const MARGIN = 10;
const ARC = 46;
const LABEL = 24;

const left = (node) => MARGIN + node.column * (NODE.width + GAP.x);
const top = (node, lift) => MARGIN + lift + node.row * (NODE.height + GAP.y);

function truthOf(node) {
  return node.reachable ? node.truth : "unreachable";
}

function box(node, lift, lit) {
  const x = left(node);
  const y = top(node, lift);
  const words = node.persist === null ? `tombstone ${node.stash}` : `stash ${node.stash} · persist ${node.persist}`;
  return svg(
    "g",
    { class: `node ${truthOf(node)}${lit ? " lit" : ""}`, "data-state": node.id, "aria-current": lit ? "true" : null },
    svg("title", {}, node.reachable ? node.why : `${node.why}; no step leads here`),
    lit ? svg("rect", { class: "halo", x: x - 5, y: y - 5, width: NODE.width + 10, height: NODE.height + 10, rx: 15 }) : null,
    svg("rect", { x, y, width: NODE.width, height: NODE.height, rx: 11 }),
    svg("text", { class: "words", x: x + NODE.width / 2, y: y + 24 }, words),
    svg("text", { class: "truth", x: x + NODE.width / 2, y: y + 46 }, node.reachable ? `truth: ${node.truth}` : "cannot be reached"),
    svg(
      "text",
      { class: "settled", x: x + NODE.width / 2, y: y + 65 },
      lit ? "● now" : node.settled || !node.reachable ? "" : "half-way",
    ),
  );
}

// Two edges between the same nodes run side by side: each keeps to its right.
function route(edge, from, to, lift, twoWay) {
  const shift = twoWay ? 15 : 0;
  const [fx, fy, tx, ty] = [left(from), top(from, lift), left(to), top(to, lift)];
  if (from.row === to.row) {
    const forward = to.column > from.column;
    if (Math.abs(to.column - from.column) > 1) {
      const [x1, x2, y] = [fx + NODE.width / 2, tx + NODE.width / 2, fy];
      return { path: `M${x1},${y} C${x1},${y - ARC} ${x2},${y - ARC} ${x2},${y - 4}`, x: (x1 + x2) / 2, y: y - ARC * 0.75 - 5 };
    }
    const y = fy + NODE.height / 2 + (forward ? -shift : shift);
    const [x1, x2] = forward ? [fx + NODE.width, tx - 4] : [fx, tx + NODE.width + 4];
    return { path: `M${x1},${y} L${x2},${y}`, x: (x1 + x2) / 2, y: forward || !twoWay ? y - 7 : y + 17 };
  }
  const down = to.row > from.row;
  const x = fx + NODE.width / 2;
  const [y1, y2] = down ? [fy + NODE.height, ty - 4] : [fy, ty + NODE.height + 4];
  return { path: `M${x},${y1} L${x},${y2}`, x: x + 9, y: (y1 + y2) / 2 + 4, anchor: "start" };
}

const STEPS = { announce: "announces", replace: "cuts over", set_tombstone: "cuts over" };

function arrow(edge, nodes, edges, lift, current) {
  const twoWay = edges.some((other) => other.from === edge.to && other.to === edge.from);
  const drawn = route(edge, nodes.get(edge.from), nodes.get(edge.to), lift, twoWay);
  const possible = edge.from === current;
  return svg(
    "g",
    { class: `edge ${edge.direction}${possible ? " possible" : ""}${edge.moves_truth ? " moves" : ""}` },
    svg("title", {}, `${edge.direction}, ${edge.step}: ${edge.why}`),
    svg("path", { d: drawn.path, "marker-end": `url(#tip-${possible ? edge.direction : "quiet"})` }),
    svg("text", { x: drawn.x, y: drawn.y, "text-anchor": drawn.anchor ?? "middle" }, `${edge.direction} ${STEPS[edge.step]}`),
  );
}

const tip = (name) =>
  svg(
    "marker",
    { id: `tip-${name}`, class: `tip ${name}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto" },
    svg("path", { d: "M0,1 L9,5 L0,9 z" }),
  );

export function diagram(protocol, current) {
  const nodes = new Map(protocol.nodes.map((node) => [node.id, node]));
  const columns = Math.max(...protocol.nodes.map((node) => node.column)) + 1;
  const rows = Math.max(...protocol.nodes.map((node) => node.row)) + 1;
  const lift = protocol.edges.some((edge) => Math.abs(nodes.get(edge.from).column - nodes.get(edge.to).column) > 1) ? ARC : 0;
  const width = 2 * MARGIN + LABEL + columns * NODE.width + (columns - 1) * GAP.x;
  const height = 2 * MARGIN + lift + rows * NODE.height + (rows - 1) * GAP.y;
  const lit = nodes.get(current);
  return h(
    "div",
    { class: "diagram", tabindex: "0", role: "group", "aria-label": "State diagram, scrollable" },
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": lit ? `Now: ${lit.why}` : "States" },
      svg("defs", {}, ["migrate", "rollback", "quiet"].map(tip)),
      protocol.edges.map((edge) => arrow(edge, nodes, protocol.edges, lift, current)),
      protocol.nodes.map((node) => box(node, lift, node.id === current)),
    ),
  );
}

export function fromHere(transitions) {
  if (!transitions.length) return h("p", { class: "quiet" }, "No step of the protocol leads on from here.");
  return h(
    "ul",
    { class: "from-here" },
    transitions.map((edge) =>
      h(
        "li",
        {},
        h("span", { class: `direction ${edge.direction}` }, edge.direction),
        ` ${STEPS[edge.step]} by `,
        h("code", {}, edge.step),
        edge.moves_truth ? ": the truth moves. Then " : ". Then ",
        `${edge.why}.`,
      ),
    ),
  );
}
