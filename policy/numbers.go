package policy

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// checkNumbers refuses limits that no flag or file can have: a time that is over already, as time.Until gives one, would be
// no limit at all.
func (b *builder) checkNumbers() error {
	p := &b.policy
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"--timeout", p.Timeout}, {"--grace", p.Grace}, {"--cpu-time", p.CPUTime}, {"--net-idle", p.NetLimits.Idle}, {"--net-total", p.NetLimits.Total},
	} {
		if d.value < 0 {
			return &Error{Step: "limit", Object: d.flag + " " + d.value.String(), Err: errors.New("is less than nothing"), Hint: "0 is no limit"}
		}
	}
	for _, n := range []struct {
		flag  string
		value float64
	}{
		{"--cpus", p.CPUs}, {"--net-rate", p.NetLimits.Rate}, {"--net-connections", float64(p.NetLimits.Connections)},
	} {
		if !(n.value >= 0) || math.IsInf(n.value, 0) {
			return &Error{Step: "limit", Object: fmt.Sprint(n.flag, " ", n.value), Err: errors.New("is no number from 0"), Hint: "0 is no limit"}
		}
	}
	return nil
}
