// Command gobox runs one command it does not trust in a fresh sandbox.
package main

import (
	"os"

	"gobox/sandbox"
)

func main() {
	// The stage comes before anything else: init needs no command line.
	if sandbox.IsInit() {
		sandbox.Init()
	}
	os.Exit(execute(os.Args[1:]))
}
