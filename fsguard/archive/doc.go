// Package archive unpacks an archive that may have been made to do harm: tar, plain or compressed with gzip,
// zstd, xz or bzip2, and zip, told apart by content.
//
// An archive is refused whole, and nothing of it stays, when an entry's name or link leads out of the
// directory, an entry goes through a link, two entries claim one name, the structure says two things at once
// (overlapping entries, headers that contradict each other), or a limit is passed. What can be made harmless
// is, and is reported: setuid, setgid and sticky bits are cleared, extended attributes and ACLs left out,
// devices, FIFOs and sockets not made. Owners are never taken from the archive: files belong to the caller.
//
// Entries go through a [fsguard.Root] on a new directory beside the target, which is renamed into place at
// the end, so that a race, a mount or a link in the target cannot matter. Memory does not grow with the size of
// files; it grows with the number of entries and the length of their names, which are limited.
package archive
