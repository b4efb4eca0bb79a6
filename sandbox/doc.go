// Package sandbox is the engine: the supervisor, init, and what they say to each other.
//
// The supervisor is the process the user started. It clones init, which executes the same binary again
// as PID 1 of fresh namespaces, and sends it a [policy.Plan]. Init builds the tree, spawns the command
// behind Landlock and the system call filter, and reaps; the supervisor keeps time, forwards signals and
// relays the terminal. When init dies, the kernel kills everything in its pid namespace
// (pid_namespaces(7)), and init dies with the supervisor: by PR_SET_PDEATHSIG, and by the end of their
// socket.
//
// A program may have as many runs at a time as it likes, beside whatever else it does. It asks [IsInit] first thing in main. What
// it gives in a [Spec] is called from within [Run], which waits for it: the command's time goes on meanwhile, but nobody ends it
// before init does.
//
// Files named supervisor_*.go run on the host's side, files named init_*.go inside.
package sandbox
