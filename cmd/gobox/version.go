package main

import "runtime/debug"

// version is set by the linker: -X main.version=v1.2.3.
var version string

// versionText falls back to what the Go tool has recorded about the source.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = " " + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " modified"
		}
	}
	return "devel" + revision + modified
}
