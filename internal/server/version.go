package server

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version says which Leaseway this is, such as "v1.2.3" or "devel 3cbdbc7 (modified)".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	version, revision, modified := info.Main.Version, "", ""

	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value[:min(12, len(setting.Value))]
		case "vcs.modified":
			if setting.Value == "true" {
				modified = " (modified)"
			}
		}
	}

	if version == "" || version == "(devel)" {
		return strings.TrimSpace("devel "+revision) + modified
	}

	return version
}

// Platform is what it was built with and for, such as "go1.26.0 linux/amd64".
func Platform() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }
