// The table of requests: the newest first, a bounded number, filtered by what the user typed.

import { counted, element, find, foreign, show } from "./dom.js";

const KEPT = 1000;
const SHOWN = 300;
const kept = []; // the oldest first
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
  kept.push(...records);
  kept.splice(0, kept.length - KEPT);
  fresh.push(...records);
  fresh = fresh.slice(-SHOWN);
  if (!drawing && !find("paused").checked) {
    drawing = true;
    requestAnimationFrame(draw);
  }
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
  while (rows.rows.length > SHOWN) rows.deleteRow(-1);
  count();
}

function redraw() {
  fresh = [];
  find("rows").replaceChildren(...kept.filter(wanted).slice(-SHOWN).reverse().map(row));
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
    { class: record.decision === "deny" ? "deny" : "allow" },
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

