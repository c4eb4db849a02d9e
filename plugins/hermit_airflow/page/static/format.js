// Numbers, sizes and times as people read them.

const counts = new Intl.NumberFormat("en");

export const count = (value) => (value === null || value === undefined ? "–" : counts.format(value));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit && left < 100 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

export const tombstone = (value) => (value === null || value === undefined ? "absent" : String(value));

export function moment(value) {
  if (!value) return "–";
  const when = new Date(value);
  return when.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

export const between = (start, end) => (new Date(end ?? Date.now()) - new Date(start)) / 1000;
