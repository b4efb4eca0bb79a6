package egress

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// maxNames is how many names one run may have synthetic addresses for. A command can ask for any number of names below a
// wildcard; each costs up to 400 bytes, and none is forgotten, for its address must never come to mean another host.
const maxNames = 32768

// pool gives every allowed name that is asked for one address of each family.
type pool struct {
	base4, base6 netip.Addr // invalid if the family is not there
	capacity     int

	mu     sync.Mutex
	byName map[string]int
	names  []string
}

// firstAddress leaves the lowest addresses of a pool to whoever sets up the network.
const firstAddress = 256

// newPool registers the names of the rules at once, so that a flood of others cannot take their places.
func newPool(p Policy, p4, p6 netip.Prefix) *pool {
	l := &pool{capacity: maxNames, byName: map[string]int{}}
	if p4.IsValid() && p4.Addr().Is4() {
		l.base4 = p4.Masked().Addr()
		l.capacity = min(l.capacity, room(32-p4.Bits()))
	}
	if p6.IsValid() && p6.Addr().Is6() {
		l.base6 = p6.Masked().Addr()
		l.capacity = min(l.capacity, room(128-p6.Bits()))
	}
	for _, r := range p.Rules {
		if r.Name != "" && !r.Wildcard {
			l.get(r.Name)
		}
	}
	return l
}

// room is how many names have a place in a pool with so many bits free.
func room(bits int) int {
	if bits > 20 {
		return maxNames
	}
	return max(0, 1<<bits-firstAddress-1)
}

// get gives the addresses of a canonical, allowed name. ok is false when all places are taken.
func (l *pool) get(name string) (v4, v6 netip.Addr, ok bool) {
	l.mu.Lock()
	i, known := l.byName[name]
	if !known {
		if len(l.names) >= l.capacity {
			l.mu.Unlock()
			return v4, v6, false
		}
		i = len(l.names)
		l.names = append(l.names, name)
		l.byName[name] = i
	}
	l.mu.Unlock()
	return add(l.base4, i), add(l.base6, i), true
}

// name is the way back from a synthetic address.
func (l *pool) name(a netip.Addr) (string, bool) {
	base := l.base4
	if a.Is6() {
		base = l.base6
	}
	i, ok := sub(a, base)
	if !ok {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i >= len(l.names) {
		return "", false
	}
	return l.names[i], true
}

func add(base netip.Addr, i int) netip.Addr {
	if !base.IsValid() {
		return base
	}
	b := base.AsSlice()
	tail := b[len(b)-4:]
	binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)+uint32(firstAddress+i))
	a, _ := netip.AddrFromSlice(b)
	return a
}

func sub(a, base netip.Addr) (int, bool) {
	if !base.IsValid() || a.BitLen() != base.BitLen() {
		return 0, false
	}
	x, y := a.AsSlice(), base.AsSlice()
	n := len(x) - 4
	if string(x[:n]) != string(y[:n]) {
		return 0, false
	}
	d := int64(binary.BigEndian.Uint32(x[n:])) - int64(binary.BigEndian.Uint32(y[n:])) - firstAddress
	if d < 0 || d >= maxNames {
		return 0, false
	}
	return int(d), true
}
