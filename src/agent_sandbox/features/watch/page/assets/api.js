// Talk to the server that the page came from. The key is stored for this port alone; the cookie is the browser's.

const KEY = "agent-sandbox-key";
const AGAIN_MS = 2000;

export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

async function answered(response) {
  if (response.ok) return response;
  const text = await response.text();
  let why = text;
  try {
    why = JSON.parse(text).error;
  } catch {
    // The response is plain text.
  }
  throw new Refused(response.status, why || `status ${response.status}`);
}

const headers = () => ({ "Agent-Sandbox-Key": localStorage.getItem(KEY) ?? "" });

const pause = () => new Promise((done) => setTimeout(done, AGAIN_MS));

export async function get(path) {
  return (await answered(await fetch(path, { headers: headers() }))).json();
}

export async function post(path, said) {
  const sent = { ...headers(), "Content-Type": "application/json" };
  const response = await answered(await fetch(path, { method: "POST", headers: sent, body: JSON.stringify(said) }));
  return response.status === 204 ? null : response.json();
}

// Exchange the token in the address for a session, and take it out of the address. Try again if there is no response.
export async function begin() {
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, "", "/");
  for (;;) {
    try {
      const { key } = await post("/api/session", { token });
      localStorage.setItem(KEY, key);
      return;
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    await pause();
  }
}

// Follow the news until the session is over; connect again after every break.
export async function follow(onNews, onBreak) {
  let cursor = 0;
  for (;;) {
    try {
      const response = await answered(await fetch(`/api/news?after=${cursor}`, { headers: headers() }));
      for await (const news of events(response.body)) {
        cursor = news.cursor;
        onNews(news);
      }
      onBreak("agent-sandbox ui has ended, or the connection broke; trying again");
    } catch (error) {
      if (error instanceof Refused && error.status < 500) throw error;
      onBreak("agent-sandbox ui does not answer; trying again");
    }
    await pause();
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}
