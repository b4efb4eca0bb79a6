// Package egress lets a command in a network namespace of its own reach the hosts and ports that rules name, and nothing
// else. It runs in the supervisor and is given sockets that listen in the command's network.
//
//	the command asks for a name   -> DNS answers an allowed one with a synthetic address, nothing goes upstream
//	the command dials it          -> listener on that port; the local address of the connection says which name
//	Policy.DecideName             -> TLS ports: the ClientHello must ask for that name
//	the host's resolver           -> each address is looked at (package address), again when it is dialled
//	dial, splice(2) both ways     -> one Event
//
// A program that honours proxy variables comes in by the proxy listener (CONNECT, SOCKS5, http:// requests) and gets the
// same decision with the reason in words. A refusal is a Decision, and its text is the same wherever it is read.
//
// Names and addresses are told apart and made canonical once, by package hostname, and only that value goes further.
package egress
