// Fetches a URL with undici, in one of its ways.
const undici = require('undici')

const ways = {
  fetch: (url) => undici.fetch(url),
  EnvHttpProxyAgent: (url) => undici.fetch(url, { dispatcher: new undici.EnvHttpProxyAgent() }),
  ProxyAgent: (url) => undici.fetch(url, { dispatcher: new undici.ProxyAgent(process.env.HTTPS_PROXY) }),
}

async function main(way, url) {
  const answer = await ways[way](url)
  console.log(answer.status, await answer.text())
  process.exit(answer.ok ? 0 : 1)
}

main(...process.argv.slice(2))
