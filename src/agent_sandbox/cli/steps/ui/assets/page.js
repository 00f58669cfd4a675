// The page: begins the session, and passes the news to the views.

import { Refused, begin, follow, post } from "./api.js";
import { button, element, find, foreign, say, show } from "./dom.js";
import * as notifications from "./notifications.js";
import * as questions from "./questions.js";
import * as requests from "./requests.js";
import * as rules from "./rules.js";
import * as views from "./views.js";

const KEYS = [
  ["a", "allow the selected request once"],
  ["h", "allow the rule below it for an hour"],
  ["s", "allow the rule until the sandbox stops"],
  ["p", "write the rule into the project's policy; shows the change first"],
  ["u", "write it into your own policy, for all your projects; shows the change first"],
  ["d", "deny the request, or all of a group"],
  ["j, k", "select the next or the previous request"],
  ["/", "filter; Escape clears the filter"],
  ["space", "pause the table"],
];

function news(found) {
  find("name").textContent = found.name;
  if (found.missed) say(`${found.missed} decisions came too fast; agent-sandbox proxy logs has them`);
  requests.add(found.records);
  if (found.state) {
    const fresh = questions.update(found.state);
    grants(found.state.grants);
    if (fresh.length) {
      find("alert").textContent = fresh.length === 1 ? `${fresh[0].request} waits for you` : `${fresh.length} requests wait for you`;
      notifications.about(fresh);
    }
  }
  if (!found.connected) find("asking").textContent = "not connected to the proxy";
  if (found.notes.length) say(found.notes.at(-1));
}

function grants(all) {
  find("grants").hidden = all.length === 0;
  find("grant-list").replaceChildren(
    ...all.map((grant) => {
      const left = grant.seconds_left === null ? "until the sandbox stops" : `${Math.floor(grant.seconds_left / 60) + 1} minutes left`;
      return element("li", {}, foreign(grant.rule, "code"), ` ${left}, by `, foreign(grant.who), " ", button("End", () => end(grant.id)));
    }),
  );
}

async function end(id) {
  try {
    await post("/api/end", { id });
  } catch (error) {
    say(error.message);
  }
}

function broken(why) {
  find("asking").textContent = "not connected";
  questions.update({ ask: "", groups: [], grants: [] });
  grants([]);
  say(why);
}

function help() {
  show("Keys", [element("dl", {}, ...KEYS.flatMap(([key, does]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, does)]))]);
}

async function main() {
  questions.start(rules.plan);
  requests.start(rules.plan);
  notifications.start();
  views.start();
  find("help").addEventListener("click", help);
  try {
    await begin();
    await follow(news, broken);
  } catch (error) {
    broken(error instanceof Refused ? error.message : String(error));
    find("asking").textContent = "no session";
  }
}

main();
