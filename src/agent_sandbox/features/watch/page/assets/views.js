// The views below the questions: requests, and what the audit log has of today by host and by line of the policy.

import { get } from "./api.js";
import { counted, element, find, foreign, say } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const BAR = { width: 4, height: 24 };
const READ = { hosts: showHosts, policy: showPolicy };

let chosen = () => "";

export function start(chosenStack) {
  chosen = chosenStack;
  find("stack").addEventListener("input", () => {
    for (const view of Object.keys(READ)) if (!find(view).hidden) read(view);
  });
  for (const choice of document.querySelectorAll("[data-view]")) choice.addEventListener("click", () => open(choice.dataset.view));
  for (const view of Object.keys(READ)) find(`${view}-again`).addEventListener("click", () => read(view));
}

function open(view) {
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== view;
  for (const choice of document.querySelectorAll("[data-view]")) choice.setAttribute("aria-pressed", String(choice.dataset.view === view));
  if (view in READ) read(view);
}

async function read(view) {
  const note = find(`${view}-note`);
  const stack = chosen();
  if (!stack) {
    find(`${view}-rows`).replaceChildren();
    note.textContent = "choose one stack above";
    return;
  }
  note.textContent = "reading the log";
  try {
    const found = await get(`/api/${view}?stack=${encodeURIComponent(stack)}`);
    if (stack === chosen()) note.textContent = READ[view](found);
  } catch (error) {
    note.textContent = "";
    say(error.message);
  }
}

function showHosts({ hosts, count, times }) {
  find("hosts-rows").replaceChildren(...hosts.map((one) => hostRow(one, times)));
  return count > hosts.length ? `the busiest ${hosts.length} of ${count} hosts, since midnight` : "since midnight";
}

function hostRow(one, times) {
  const name = element("button", { type: "button", class: "request", on: { click: () => filter(one.host) } }, foreign(one.host));
  const numbers = [one.requests, one.denied, one.sent, one.received, one.last];
  return element(
    "tr",
    {},
    element("td", {}, name),
    ...numbers.map((value) => element("td", { class: "number" }, String(value))),
    element("td", {}, bars(one, times)),
  );
}

function filter(host) {
  open("requests");
  find("filter").value = host;
  find("filter").dispatchEvent(new Event("input"));
  find("filter").focus();
}

// A bar for each half hour: what was denied above what was allowed.
function bars({ host, slots, requests, denied }, times) {
  const most = Math.max(1, ...slots.map(([allowed, refused]) => allowed + refused));
  const drawing = svg("svg", { width: slots.length * BAR.width, height: BAR.height, role: "img", "aria-label": `${host}: ${counted(requests, "request")}, ${denied} denied` });
  slots.forEach(([allowed, refused], at) => {
    const parts = [[allowed, "bar-allow", 0], [refused, "bar-deny", allowed]];
    for (const [count, name, below] of parts.filter(([count]) => count)) {
      const height = Math.max(1, (count / most) * BAR.height);
      const y = BAR.height - (below / most) * BAR.height - height;
      const bar = svg("rect", { class: name, x: at * BAR.width, y: Math.max(0, y), width: BAR.width - 1, height });
      const title = svg("title", {});
      title.textContent = `${times[at]}: ${allowed} allowed, ${refused} denied`;
      bar.append(title);
      drawing.append(bar);
    }
  });
  return drawing;
}

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function showPolicy({ lines, more, others }) {
  const rows = lines.map((line, at) =>
    element(
      "tr",
      {},
      element("td", { class: "number" }, String(at + 1)),
      element("td", { class: "code" }, foreign(line.text)),
      element("td", { class: "uses" }, ...line.uses.map((use) => used(use, line.uses.length > 1))),
    ),
  );
  const elsewhere = others.map((use) => element("tr", {}, element("td", {}), element("td", { class: "code" }, foreign(use.what)), element("td", { class: "uses" }, used(use, false))));
  find("policy-rows").replaceChildren(...rows, ...elsewhere);
  return `what each line decided since midnight${more ? `; ${more} more lines` : ""}`;
}

function used(use, named) {
  const counts = [[use.allowed, "allowed", "count-allow"], [use.denied, "denied", "count-deny"]].filter(([count]) => count);
  const texts = counts.map(([count, word, name]) => element("span", { class: name }, `${count} ${word} `));
  const name = named ? [foreign(use.what), ": "] : [];
  return element("div", { title: use.what }, ...name, ...(texts.length ? texts : [element("span", { class: "unused" }, "not used")]));
}
