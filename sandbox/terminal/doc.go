// Package terminal is the supervisor's side of the command's terminal: it joins the user's terminal,
// which the command never gets, with the master of a pseudoterminal made inside the sandbox (pty(7)).
//
// # What the relay relies on
//
//   - Whoever opened the master keeps one slave descriptor open until the command has ended. The master
//     reads EIO whenever no slave is open, and the relay takes that for the end.
//   - The master's open file description is the relay's alone: it is made non-blocking.
//   - Start comes before the command does, which then finds its modes and window size set.
//
// # The user's terminal
//
// Its modes are changed only while gobox is in its foreground process group, and are put back by
// Suspend and Close. In the background nothing is read from it, for that would take the shell's
// keystrokes or stop gobox (SIGTTIN), and nothing is set (SIGTTOU); the relay looks now and then whether
// it has come to the foreground, of which no signal tells.
//
// A terminal's open file description is shared with the user's shell, so O_NONBLOCK must not be set on
// it. The relay opens the terminal a second time, non-blocking, and works on that (pipes likewise). Where
// this is refused (the terminal belongs to another user, after su(1)), it uses the shared description and
// only reads or writes when poll(2) says so.
package terminal
