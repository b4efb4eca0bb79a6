// Package policy holds what a caller may ask for (Policy), what the host is like (Host), and the pure
// function that turns both into a Plan: the flat, ordered, printable list of everything init will do.
package policy
