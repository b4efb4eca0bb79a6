// Package selftest makes the attempts of the isolation suite on this host, in a sandbox of the policy that is asked for,
// and judges from inside and outside whether each boundary held. It is safe on a host that does other work: what it touches is a
// folder of its own, loopback listeners of its own and one process of its own, and every attempt is harmless where it succeeds.
package selftest
