// Browser notifications about new questions: few, and only while the page is in the background.

import { find, say } from "./dom.js";

const PAUSE_MS = 15000;
const LONGEST = 100;
let quietUntil = 0;

export function start() {
  const ask = find("notify");
  if (!("Notification" in window) || Notification.permission !== "default") return;
  ask.hidden = false;
  ask.addEventListener("click", async () => {
    const answer = await Notification.requestPermission();
    ask.hidden = answer !== "default";
    say(answer === "granted" ? "you are notified while this page is in the background" : "the browser does not allow notifications");
  });
}

export function about(questions) {
  const now = performance.now();
  if (!("Notification" in window) || Notification.permission !== "granted" || !document.hidden || now < quietUntil) return;
  quietUntil = now + PAUSE_MS;
  const [one, ...others] = questions;
  const wait = others.length ? `and ${others.length} more wait` : "waits";
  const shown = new Notification("agent-sandbox", { body: `${one.request.slice(0, LONGEST)} ${wait} for you`, tag: "agent-sandbox" });
  shown.addEventListener("click", () => window.focus());
}
