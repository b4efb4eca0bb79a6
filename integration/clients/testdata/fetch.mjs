// HTTP/1.1 by fetch.
const answer = await fetch(process.argv[2])
process.stdout.write(await answer.text())
