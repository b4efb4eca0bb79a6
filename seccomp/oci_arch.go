package seccomp

import (
	"slices"
	"strings"
)

// ociArchitectures are the words of the OCI specification, and the names Docker has for some of them.
var ociArchitectures = [...]struct{ word, docker string }{
	{"SCMP_ARCH_NATIVE", ""}, {"SCMP_ARCH_X86", "x86"}, {"SCMP_ARCH_X86_64", "amd64"}, {"SCMP_ARCH_X32", "x32"},
	{"SCMP_ARCH_ARM", "arm"}, {"SCMP_ARCH_AARCH64", "arm64"}, {"SCMP_ARCH_MIPS", "mips"}, {"SCMP_ARCH_MIPS64", "mips64"},
	{"SCMP_ARCH_MIPS64N32", "mips64n32"}, {"SCMP_ARCH_MIPSEL", "mipsel"}, {"SCMP_ARCH_MIPSEL64", "mipsel64"},
	{"SCMP_ARCH_MIPSEL64N32", "mipsel64n32"}, {"SCMP_ARCH_PPC", "ppc"}, {"SCMP_ARCH_PPC64", "ppc64"},
	{"SCMP_ARCH_PPC64LE", "ppc64le"}, {"SCMP_ARCH_S390", "s390"}, {"SCMP_ARCH_S390X", "s390x"},
	{"SCMP_ARCH_PARISC", "parisc"}, {"SCMP_ARCH_PARISC64", "parisc64"}, {"SCMP_ARCH_RISCV64", "riscv64"},
	{"SCMP_ARCH_LOONGARCH64", "loong64"}, {"SCMP_ARCH_M68K", "m68k"}, {"SCMP_ARCH_SH", "sh"}, {"SCMP_ARCH_SHEB", "sheb"},
}

func isOCIArchitecture(word string) bool {
	for _, a := range ociArchitectures {
		if a.word == word {
			return true
		}
	}
	return false
}

func isDockerArchitecture(name string) bool {
	for _, a := range ociArchitectures {
		if a.docker == name {
			return name != ""
		}
	}
	// Names of Docker that are Go's, where the specification has none or another.
	return name == "386" || name == "ppc64" || name == "mips64le" || name == "mipsle"
}

func nativeOCI(arch string) string {
	if arch == "arm64" {
		return "SCMP_ARCH_AARCH64"
	}
	return "SCMP_ARCH_X86_64"
}

// readArchitectures refuses a profile that is not for this machine. The others it names stay closed, which is less than
// the profile asks for: their calls have other numbers, and one list of exceptions is enough.
func (r *ociReader) readArchitectures(n node) error {
	items, words, err := r.texts(n, "architectures")
	if err != nil {
		return err
	}
	for i, word := range words {
		if !isOCIArchitecture(word) {
			return r.errorAt(items[i].offset, "unknown architecture %q", word)
		}
	}
	native := slices.Contains(words, nativeOCI(r.arch)) || slices.Contains(words, "SCMP_ARCH_NATIVE")
	if len(words) > 0 && !native {
		return r.errorAt(n.offset, "the profile is for %s, this machine is %s", strings.Join(words, ", "), nativeOCI(r.arch))
	}
	r.noteForeign(words)
	return nil
}

func (r *ociReader) noteForeign(words []string) {
	foreign := slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return w == nativeOCI(r.arch) || w == "SCMP_ARCH_NATIVE"
	})
	if len(foreign) > 0 {
		r.note("calls of %s end the process, although the profile names these architectures", strings.Join(foreign, ", "))
	}
}

// readArchMap reads Docker's list of architectures and those that run beside each.
func (r *ociReader) readArchMap(n node) error {
	entries, err := r.list(n, "archMap")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		members, err := r.object(entry, "an entry of archMap")
		if err != nil {
			return err
		}
		var main string
		var beside []string
		for _, m := range members {
			var items []node
			var words []string
			switch m.key {
			case "architecture":
				main, err = r.text(m.node, m.key)
				items, words = []node{m.node}, []string{main}
			case "subArchitectures":
				items, words, err = r.texts(m.node, m.key)
				beside = words
			default:
				err = r.errorAt(m.keyOffset, "unknown key %q", m.key)
			}
			if err != nil {
				return err
			}
			for i, word := range words {
				if !isOCIArchitecture(word) {
					return r.errorAt(items[i].offset, "unknown architecture %q", word)
				}
			}
		}
		if main == nativeOCI(r.arch) {
			r.noteForeign(beside)
		}
	}
	return nil
}
