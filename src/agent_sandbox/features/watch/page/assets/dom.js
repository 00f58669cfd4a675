// Make elements. Texts become text nodes, never markup.

export const find = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (key in made && typeof value === "boolean") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}

// Show text of the sandbox in the order in which it was sent, isolated from the text around it.
export const foreign = (text, name = "span") => element(name, { class: "foreign" }, text);

export const button = (text, act, attributes = {}) => element("button", { type: "button", on: { click: act }, ...attributes }, text);

export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

export function say(text) {
  find("status").textContent = text;
}

export const SETTLE_MS = 700;
const moved = new WeakMap(); // when each element last moved

// An element that comes or goes may move those around it.
export function look(item) {
  const { top, height } = item.getBoundingClientRect();
  const place = `${Math.round(top)} ${Math.round(height)}`;
  if (item.dataset.place !== place) moved.set(item, performance.now());
  item.dataset.place = place;
}

export const movedAt = (item) => moved.get(item);
let closed = () => {};

// Show a dialog. Each button has a text and an action; Escape and the last button only close it. The others do nothing
// at first: a second click was meant for what was there before.
export function show(title, body, buttons = [], onClose = () => {}) {
  const dialog = find("dialog");
  find("dialog-title").textContent = title;
  find("dialog-body").replaceChildren(...body);
  const since = performance.now();
  const settled = (act) => () => performance.now() - since >= SETTLE_MS && act();
  find("dialog-buttons").replaceChildren(
    ...buttons.map(([text, act]) => button(text, settled(act))),
    button("Close", () => dialog.close()),
  );
  closed = onClose;
  if (!dialog.open) dialog.showModal();
}

export function closeDialog() {
  find("dialog").close();
}

export const dialogIsOpen = () => find("dialog").open;

find("dialog").addEventListener("close", () => closed());
