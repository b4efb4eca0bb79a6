// Command probe is what the isolation suite runs inside the sandbox: it makes the attempts of `gobox selftest`
// (selftest/attempt) and more that only a machine for tests should bear, and reports what the kernel answered, one JSON line
// per attempt.
//
// Usage: probe ATTEMPT ARG... [+ ATTEMPT ARG...]...
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"gobox/selftest/attempt"
)

func lookup(name string) attempt.Func {
	for _, find := range []func(string) attempt.Func{stdioAttempt, limitAttempt, sharedAttempt, onlineAttempt, proxyAttempt, modeAttempt, onlyAttempt} {
		if a := find(name); a != nil {
			return a
		}
	}
	return attempt.Lookup(name)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "probe: usage: probe ATTEMPT ARG... [+ ATTEMPT ARG...]...")
		os.Exit(2)
	}
	if len(os.Args) > 2 && os.Args[1] == "raw" {
		os.Exit(raw(os.Args[2], os.Args[3:]))
	}
	var words []string
	for _, arg := range append(os.Args[1:], "+") {
		if arg != "+" {
			words = append(words, arg)
			continue
		}
		if len(words) > 0 {
			report(words)
		}
		words = nil
	}
}

func report(words []string) {
	a := lookup(words[0])
	if a == nil {
		fmt.Fprintf(os.Stderr, "probe: unknown attempt %q\n", words[0])
		os.Exit(2)
	}
	ret, detail, err := a(words[1:])
	emit(strings.Join(words, " "), ret, detail, err)
}

func emit(name string, ret int64, detail string, err error) {
	line, err := json.Marshal(attempt.Tell(name, ret, detail, err))
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

func pointer(b []byte) uintptr                        { return attempt.Pointer(b) }
func number(s string) uintptr                         { return attempt.Number(s) }
func call(nr uintptr, args ...uintptr) (int64, error) { return attempt.Call(nr, args...) }
func errnoName(err error) string                      { return attempt.ErrnoName(err) }

// badPointer is never mapped.
const badPointer = attempt.BadPointer
