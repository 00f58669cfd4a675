// The table of requests: the newest first, a bounded number, filtered by what the user typed.
// A stack with many requests loses its own, not those of others.

import { counted, element, find, foreign, show } from "./dom.js";

const KEPT = 1000;
const SHOWN = 300;
let kept = []; // the oldest first
let fresh = []; // not yet shown
let drawing = false;
let onRule = () => {};
let chosen = () => "";

export function start(makeRule, chosenStack) {
  onRule = makeRule;
  chosen = chosenStack;
  for (const id of ["filter", "denied", "stack"]) find(id).addEventListener("input", redraw);
  find("paused").addEventListener("change", () => !find("paused").checked && redraw());
  find("rows").addEventListener("keydown", move);
}

export function add(records) {
  kept = newest([...kept, ...records], KEPT);
  fresh = newest([...fresh, ...records], SHOWN);
  if (!drawing && !find("paused").checked) {
    drawing = true;
    requestAnimationFrame(draw);
  }
}

// The newest ones, the same number of each stack as far as it has them.
function newest(records, most) {
  if (records.length <= most) return records;
  const counts = new Map();
  for (const { stack } of records) counts.set(stack, (counts.get(stack) ?? 0) + 1);
  let room = most;
  let others = counts.size;
  const left = new Map(); // how many of each stack to take
  for (const [stack, count] of [...counts].sort(([, one], [, two]) => one - two)) {
    left.set(stack, Math.min(count, Math.floor(room / others)));
    room -= left.get(stack);
    others -= 1;
  }
  const take = ({ stack }) => left.set(stack, left.get(stack) - 1).get(stack) >= 0;
  return [...records].reverse().filter(take).reverse();
}

function wanted(record) {
  const text = find("filter").value.toLowerCase();
  if (chosen() && record.stack !== chosen()) return false;
  return (!find("denied").checked || record.decision === "deny") && `${record.request} ${record.reason}`.toLowerCase().includes(text);
}

function draw() {
  drawing = false;
  if (find("paused").checked) return;
  const rows = find("rows");
  rows.prepend(...fresh.filter(wanted).reverse().map(row));
  fresh = [];
  const shown = [...rows.rows].reverse().map((row) => ({ row, stack: row.dataset.stack }));
  const stay = new Set(newest(shown, SHOWN).map(({ row }) => row));
  for (const { row } of shown) if (!stay.has(row)) row.remove();
  count();
}

function redraw() {
  fresh = [];
  find("rows").replaceChildren(...newest(kept.filter(wanted), SHOWN).reverse().map(row));
  count();
}

function count() {
  const shown = find("rows").rows.length;
  find("count").textContent = shown === kept.length ? `${shown}` : `${shown} of ${kept.length}`;
}

function row(record) {
  const open = element("button", { type: "button", class: "request", on: { click: () => details(record) } }, foreign(record.request));
  const reason = record.reason ? foreign(record.reason) : "";
  return element(
    "tr",
    { class: record.decision === "deny" ? "deny" : "allow", "data-stack": record.stack },
    element("td", {}, record.time),
    element("td", { class: "decision" }, record.decision),
    element("td", { class: "stack" }, record.stack),
    element("td", {}, open),
    element("td", {}, record.status === null ? "" : String(record.status)),
    element("td", { class: "reason" }, reason),
  );
}

function move(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const next = step && event.target.closest("tr")?.[step]?.querySelector("button");
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

function details(record) {
  const sizes = [["sent", record.bytes_out], ["received", record.bytes_in]].filter(([, bytes]) => bytes);
  const facts = [
    ["time", record.time],
    ["stack", record.stack],
    ["request", record.request],
    ["decision", record.decision],
    ["reason", record.reason],
    ["rule", record.rule],
    ["status", record.status ?? ""],
    ["took", record.duration_ms ? `${record.duration_ms} ms` : ""],
    ...sizes.map(([name, bytes]) => [name, counted(bytes, "byte")]),
    ["looks like", record.tool],
    ["headers", record.headers],
  ].filter(([, value]) => value !== "");
  const list = element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), foreign(String(value), "dd")]));
  const buttons = record.decision === "deny" ? [["Make this a rule", () => onRule({ stack: record.stack, record: record.number })]] : [];
  show("Request", [list], buttons);
}

