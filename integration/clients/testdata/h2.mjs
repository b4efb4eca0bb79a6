// HTTP/2: one request for a file, and then on the same connection four at once that speak in turns: each waits for what
// it said to come back before it says the next. The last word is said after the request's end.
import http2 from 'node:http2'

const session = http2.connect(process.argv[2])
session.on('error', (err) => { console.error(err.message); process.exit(1) })

function ask(headers) {
	const stream = session.request(headers)
	stream.setEncoding('utf8')
	return stream
}

let text = ''
for await (const part of ask({ ':path': '/data/file.txt' })) text += part
process.stdout.write(text)

async function converse(name) {
	const stream = ask({ ':path': '/echo', ':method': 'POST' })
	let heard = '', said = '', wake
	stream.on('data', (part) => { heard += part; wake?.() })
	const ended = new Promise((resolve) => stream.on('end', resolve))
	for (let i = 0; i < 25; i++) {
		const word = `${name}${i} ` + 'x'.repeat(i * 200)
		said += word
		stream.write(word)
		while (heard.length < said.length) await new Promise((resolve) => { wake = resolve })
	}
	said += 'last'
	stream.end('last')
	await ended
	return heard === said
}

const all = await Promise.all(['a', 'b', 'c', 'd'].map(converse))
console.log(session.alpnProtocol, all.filter(Boolean).length)
session.close()
