package sandbox

import (
	"gobox/namespaces"
)

// Bits of msgNetwork.
const (
	networkShared = 1 << iota // namespaces.Sockets.Shared
	networkNoIPv6
)

// giveNetwork makes the gateway of the command's network, if there is to be one, and hands what listens there to the
// supervisor. Nothing of it stays here.
func giveNetwork(n *namespaces.Network, sock int) *failure {
	if !n.Gateway {
		return nil
	}
	s, err := namespaces.OpenGateway(*n)
	if err != nil {
		return failed(stageNetwork, 0, err)
	}
	defer s.Close()
	m := message{kind: msgNetwork, a: int32(len(s.TCP))}
	if s.Shared {
		m.b |= networkShared
	}
	if s.NoIPv6 {
		m.b |= networkNoIPv6
	}
	if err := send(sock, m, s.List()...); err != nil {
		return failed(stageNetwork, 1, err)
	}
	return nil
}
