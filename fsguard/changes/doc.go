// Package changes takes what a command wrote in an overlay out of its upper directory, keeps it in the run
// directory, shows it, and applies it to the workspace.
//
// [Collect] walks the upper directory, compares it with the lower one, which is the workspace, and stores a
// [Set]: for each path what it was and what it is now. The contents lie beside it, by SHA-256. A copied-up
// file that is as before is no change, nor is a new time of modification. Devices, FIFOs and sockets, setuid,
// setgid and sticky bits, owners and extended attributes are never taken over.
//
// Files of a run directory:
//
//	changes/manifest.json    the set, see [Load]
//	changes/blobs/SHA256     a content, of the new side or, where it is small, of the old one
//	changes/journal.json     an apply that is under way, or was when the machine stopped
//	changes/applied.json     it was applied
//	changes/discarded.json   it was dropped
//
// Everything is read and written through [fsguard.Root]: no symbolic link is followed, no mount entered, and
// nothing but regular files is opened.
//
// # The hash
//
// [Set.Hash] is the SHA-256, in hexadecimal, of this form: the bytes "gobox changes 1" and NUL; then for each entry, in the
// byte order of paths, these fields, each followed by NUL: the path; the old side; the new side. A side is five fields:
// type ("" for none, "file", "folder", "symlink", "special"), permission bits in octal, size in bytes, SHA-256 of
// the content, and target of the link; all five are empty for a side that is not there, and those that do not belong to
// the type are empty. No field can contain a NUL. An old file that could not be read has "mtime:" and its time of
// modification in nanoseconds in the place of the SHA-256. Renames are a way to show an added and a deleted file and
// no part of it.
package changes
