package policy

import (
	"errors"
	"slices"

	"gobox/seccomp"
)

// Filter gives the system call filter that p asks for on h, and remarks on a profile that was imported.
// The built-in filter is compiled into the binary; any other is compiled now.
func Filter(p Policy, h Host) (seccomp.Program, []string, error) {
	if p.SeccompFile == "" && len(p.AllowSyscall) == 0 && len(p.DenySyscall) == 0 {
		return seccomp.Embedded(), nil, nil
	}
	profile, err := Profile(p, h)
	if err != nil {
		return seccomp.Program{}, nil, err
	}
	program, err := seccomp.Compile(profile)
	if err != nil {
		return seccomp.Program{}, nil, &Error{Step: "seccomp", Object: profile.Name, Err: err, Hint: "correct the profile, or run without --seccomp for the built-in one"}
	}
	return program, profile.Notes, nil
}

// Profile is what the filter is compiled from.
func Profile(p Policy, h Host) (seccomp.Profile, error) {
	for _, name := range p.AllowSyscall {
		if slices.Contains(p.DenySyscall, name) {
			return seccomp.Profile{}, &Error{Step: "seccomp", Object: name, Err: errors.New("is both allowed and denied"), Hint: "give either --allow-syscall or --deny-syscall"}
		}
	}
	profile, err := baseProfile(p.SeccompFile, h)
	if err != nil {
		return seccomp.Profile{}, &Error{Step: "seccomp", Object: p.SeccompFile, Err: err, Hint: "--seccomp takes a profile as Docker and Podman do, or the linux.seccomp object of the OCI runtime specification"}
	}
	profile, err = profile.Allow(p.AllowSyscall...)
	if err == nil {
		profile, err = profile.Deny(p.DenySyscall...)
	}
	if err != nil {
		return seccomp.Profile{}, &Error{Step: "seccomp", Err: err, Hint: "man 2 syscalls lists the names"}
	}
	return profile, nil
}

// baseProfile is the built-in one, or that of a file.
func baseProfile(file string, h Host) (seccomp.Profile, error) {
	if file == "" {
		return seccomp.Default(), nil
	}
	found, err := resolvePath(h.FS, h.Dir, file)
	if err != nil {
		return seccomp.Profile{}, err
	}
	// One byte more than a profile may have, so that a longer one is refused and not cut short.
	data, err := h.FS.ReadFile(found.Path, maxRead+1)
	if err != nil {
		return seccomp.Profile{}, plainCause(err)
	}
	kernel, err := h.Kernel()
	if err != nil {
		return seccomp.Profile{}, err
	}
	return seccomp.ParseOCI(data, file, kernel)
}
