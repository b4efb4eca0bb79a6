// Command bench compares what it costs to start /bin/true in gobox with the bare command and with
// other sandboxes that are installed. It reports and never judges: times pass or fail nothing.
//
// All contenders run in every round, in an order that is shuffled anew, so that what else the machine
// does hits all of them alike. Only ratios within one run say something.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// ordinaryUID is nobody, an id that owns nothing.
const ordinaryUID = 65534

func main() {
	if status, asked := networkMain(os.Args[1:]); asked {
		os.Exit(status)
	}
	rounds := flag.Int("rounds", 200, "measured rounds for each identity")
	warmup := flag.Int("warmup", 10, "rounds before those that count")
	write := flag.String("write", "", "replace the figures in this file")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] GOBOX")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if os.Geteuid() == 0 && isHybrid() {
		if os.Getenv(privateEnv) == "" {
			status, err := inPrivateMounts()
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: error: enter a mount namespace: %v\n", err)
				os.Exit(1)
			}
			os.Exit(status)
		}
		if err := unmountUnified(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: error: unmount the second cgroup hierarchy: %v\n", err)
			os.Exit(1)
		}
	}
	if err := run(flag.Arg(0), *rounds, *warmup, *write); err != nil {
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
		os.Exit(1)
	}
}

func run(gobox string, rounds, warmup int, write string) error {
	gobox, err := filepath.Abs(gobox)
	if err != nil {
		return err
	}
	identities := []identity{{name: "ordinary user", uid: os.Getuid(), gid: os.Getgid()}}
	if os.Geteuid() == 0 {
		identities = []identity{{name: "root"}, {name: "ordinary user", uid: ordinaryUID, gid: ordinaryUID}}
	}
	r := report{Machine: describeMachine(), Rounds: rounds}
	for _, id := range identities {
		s, err := compare(id, gobox, rounds, warmup)
		if err != nil {
			return fmt.Errorf("measure as %s: %w", id.name, err)
		}
		r.Sections = append(r.Sections, s)
	}
	if r.Init, err = traceInit(gobox, 20); err != nil {
		return fmt.Errorf("trace package initialisation: %w", err)
	}
	text := r.markdown()
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return replaceFigures(write, text)
}
