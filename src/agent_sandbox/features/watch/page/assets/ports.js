// The ports that listen in the sandboxes. A click counts only if the list has neither changed nor moved for a moment: the
// sandbox decides what is in it, and when a question appears above it.

import { Refused, post } from "./api.js";
import { SETTLE_MS, button, element, find, foreign, look, movedAt, say } from "./dom.js";

let shown = "";
let changed = 0;

export function update(stacks, several) {
  const items = stacks.flatMap(({ name: stack, ports }) => ports.map((one) => ({ ...one, stack, where: several ? `${stack}: ` : "" })));
  const more = stacks.reduce((sum, { more_ports }) => sum + more_ports, 0);
  const now = JSON.stringify([items, more]);
  if (now !== shown) draw(items, more); // a replaced button would lose the focus
  shown = now;
  [...find("port-list").children].forEach(look);
}

function draw(items, more) {
  changed = performance.now();
  find("ports").hidden = items.length === 0;
  find("port-list").replaceChildren(
    ...items.map(made),
    ...(more ? [element("li", {}, `and ${more} more: agent-sandbox ports`)] : []),
  );
}

function made(one) {
  const item = element("li");
  const address = `http://127.0.0.1:${one.here}`;
  const link = one.here ? element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address) : "";
  const toggle = button(one.here ? "Close" : "Open", () => send(item, one), { "aria-label": `${one.here ? "Close" : "Open"} port ${one.port}` });
  item.append(`${one.where}${one.port} `, foreign(one.command), " ", link, link ? " " : "", toggle);
  return item;
}

async function send(item, { stack, port, here }) {
  // The sandbox could change the list all the time: a port can be closed nevertheless.
  if (!here && performance.now() - Math.max(changed, movedAt(item)) < SETTLE_MS) {
    say("not sent, because the ports have just changed: look again");
    return;
  }
  try {
    await post("/api/port", { stack, port, here });
  } catch (error) {
    say(error instanceof Refused ? error.message : "agent-sandbox ui does not answer");
  }
}
