package policy

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestNumbers: what a program computes and no flag could say is refused, and not taken for no limit.
func TestNumbers(t *testing.T) {
	for name, ask := range map[string]func(p *Policy){
		"timeout":     func(p *Policy) { p.Timeout = time.Until(time.Now().Add(-time.Second)) },
		"grace":       func(p *Policy) { p.Grace = -1 },
		"CPU time":    func(p *Policy) { p.CPUTime = -1 },
		"idle":        func(p *Policy) { p.NetLimits.Idle = -1 },
		"total":       func(p *Policy) { p.NetLimits.Total = -1 },
		"connections": func(p *Policy) { p.NetLimits.Connections = -1 },
		"cpus":        func(p *Policy) { p.CPUs = -3 },
		"no number":   func(p *Policy) { p.CPUs = math.NaN() },
		"infinite":    func(p *Policy) { p.CPUs = math.Inf(1) },
		"rate":        func(p *Policy) { p.NetLimits.Rate = -0.5 },
		"publish":     func(p *Policy) { p.Publish = []Publish{{}} },
		"address":     func(p *Policy) { p.Publish = []Publish{{HostPort: 8080, Port: 80}} },
		"host's port": func(p *Policy) { p.Publish = []Publish{{Addr: "127.0.0.1", Port: 80}} },
		"port inside": func(p *Policy) { p.Publish = []Publish{{Addr: "127.0.0.1", HostPort: 8080}} },
	} {
		p := Default()
		p.Argv = []string{"/bin/true"}
		p.Workspace = Workspace{Path: t.TempDir(), Mode: ModeReadOnly, Explicit: true}
		ask(&p)
		_, err := Resolve(p, CurrentHost())
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
