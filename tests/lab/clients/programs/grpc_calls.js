// A unary call, and a stream whose next message waits for the answer to the one before.
const grpc = require('@grpc/grpc-js')

const client = new grpc.Client(`${process.argv[2]}:443`, grpc.credentials.createSsl())
const same = (bytes) => bytes
const options = { deadline: Date.now() + 8000 }
client.makeUnaryRequest('/echo.Echo/Say', same, same, Buffer.from('hello'), new grpc.Metadata(), options, (error, answer) => {
  if (error) { console.error(error.message); process.exit(1) }
  console.log(answer.toString())
  const call = client.makeBidiStreamRequest('/echo.Echo/Talk', same, same, new grpc.Metadata(), options)
  call.on('data', (data) => {
    console.log('streamed', data.toString())
    if (Number(data) < 3) call.write(Buffer.from(String(Number(data) + 1)))
    else call.end()
  })
  call.on('end', () => process.exit(0))
  call.on('error', (error) => { console.error(error.message); process.exit(1) })
  call.write(Buffer.from('1'))
})
