// Reads one HTTP/1.1 response per line of standard input (base64), as Node's client does, and prints what it made of it.
import http from "node:http";
import net from "node:net";
import { createInterface } from "node:readline";

let raw;
const server = net.createServer((stream) => {
  stream.on("error", () => {});
  stream.once("data", () => stream.end(raw));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

function read() {
  return new Promise((done) => {
    const request = http.get({ host: "127.0.0.1", port: server.address().port, path: "/x", agent: false });
    const refused = () => done(null);
    request.on("error", refused);
    request.on("upgrade", (_, stream) => refused(stream.destroy()));
    request.on("close", refused);
    request.on("response", (response) => {
      const pieces = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("error", refused);
      response.on("end", () =>
        done(response.complete ? [response.statusCode, Buffer.concat(pieces).toString("base64")] : null),
      );
    });
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  raw = Buffer.from(line, "base64");
  console.log(JSON.stringify(await read()));
}
server.close();
