// Package record keeps what is known about a run: its result, its events, what was captured of its output,
// and over many runs their figures, the gate and the runs that must not be repeated.
//
// All of it lives below one state directory:
//
//	runs/<run id>/request.json   who started the run, written before anything happens
//	              events.jsonl   one line per event, only ever appended
//	              stdout, stderr captures, when asked for
//	              result.json    how it ended; there whole or not at all
//	idempotency/<sha256 of key>  which run answers for a key
//	quarantine/<run id>.json     what of a run could not be destroyed
//	gate.json                    gates that closed
//
// A run directory is locked (flock(2)) by the process that writes it for as long as that lives. No result and
// no lock therefore means that gobox was killed, whatever else the files say.
//
// Every file is reached from a descriptor of the state directory, which must belong to the caller and be
// writable for nobody else; no symbolic link below it is ever followed.
package record
