// Command checkstatic fails unless each file it is given is an ELF executable that needs no dynamic
// loader and no shared library (elf(5): PT_INTERP, DT_NEEDED).
package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: checkstatic FILE...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		machine, err := check(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "checkstatic: error: %s: %v\n", path, err)
			os.Exit(1)
		}
		fmt.Printf("%s: static %s executable\n", path, machine)
	}
}

func check(path string) (elf.Machine, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return 0, fmt.Errorf("not an executable but %v", f.Type)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return 0, errors.New("dynamic: it names a loader")
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return 0, fmt.Errorf("read the dynamic section: %w", err)
	}
	if len(libs) > 0 {
		return 0, fmt.Errorf("dynamic: it needs %v", libs)
	}
	return f.Machine, nil
}
