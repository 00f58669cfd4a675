// Says a word over a WebSocket, and prints what comes back.
const chat = new WebSocket(process.argv[2])
chat.onopen = () => chat.send('hello from a chat')
chat.onmessage = (message) => { console.log(message.data); chat.close() }
chat.onerror = (event) => { console.error(event.error); process.exit(1) }
