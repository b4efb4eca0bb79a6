package record

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes sure that the record can be written later on, and puts what there is on the disk.
func (r *Run) reserve() error {
	for _, fd := range []int{r.result, r.events} {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, reserved)
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return failure("reserve space in", r.dir.path, err)
		}
	}
	if r.journaled() {
		if err := writeBack(r.request); err != nil {
			return failure("sync", r.dir.path+"/"+requestName, err)
		}
		if err := unix.Fsync(r.request); err != nil {
			return failure("sync", r.dir.path+"/"+requestName, err)
		}
		return nil
	}
	if err := unix.Fsync(r.request); err != nil {
		return failure("sync", r.dir.path+"/"+requestName, err)
	}
	return r.syncDirs()
}

// commit writes the result, gives it its name, and waits for all of the record to be on the disk. The error is about the
// result; what the other files met is kept as the record's.
func (r *Run) commit(content []byte) error {
	if r.durable {
		_ = unix.Ftruncate(r.events, r.written) // gives back what was reserved
	}
	fd := r.result
	r.result = -1
	if !r.journaled() {
		r.keep(r.syncFiles())
		if err := r.dir.settle(fd, resultTemp, resultName, r.dir.path+"/"+resultName, content, true); err != nil {
			return err
		}
		r.keep(r.syncDirs())
		return nil
	}
	// The others' data first, so that the disk has all of it at once.
	for _, f := range r.others() {
		_ = unix.SyncFileRange(f.fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	path := r.dir.path + "/" + resultName
	err := writeAll(fd, content)
	if err == nil {
		err = unix.Ftruncate(fd, int64(len(content))) // gives back what was reserved
	}
	if err == nil {
		err = writeBack(fd) // before its name, or a result without content could come to be on the disk
	}
	for _, f := range r.others() {
		if err := writeBack(f.fd); err != nil {
			r.keep(failure("sync", f.path, err))
		}
	}
	if err == nil {
		err = unix.Renameat(r.dir.fd, resultTemp, r.dir.fd, resultName)
	}
	if err != nil {
		unix.Close(fd)
		_ = unix.Unlinkat(r.dir.fd, resultTemp, 0)
		return failure("write", path, err)
	}
	err = unix.Fsync(fd)
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return failure("sync", path, err)
}

// journaled tells a file system whose journal takes down all changes to names, sizes and places of blocks in their order
// and as one, so that a single fsync(2), for which everything waits, takes all that went before with it: ext4
// (Documentation/filesystems/ext4/journal.rst). Others promise no more than fsync(2) does, for each file and directory. Without
// a journal ext4 promises nothing about names after a crash, until e2fsck has run.
func (r *Run) journaled() bool {
	var st unix.Statfs_t
	return unix.Fstatfs(r.dir.fd, &st) == nil && st.Type == unix.EXT4_SUPER_MAGIC
}

// writeBack waits until the data of a file has been handed to the disk, which may still have it in a cache of its own
// (sync_file_range(2)).
func writeBack(fd int) error {
	for {
		err := unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		switch err {
		case unix.EINTR:
		case unix.ENOSYS, unix.EPERM: // a filter of a container's
			return unix.Fdatasync(fd)
		default:
			return err
		}
	}
}

type namedFD struct {
	fd   int
	path string
}

// others are the files of the record beside its result.
func (r *Run) others() []namedFD {
	all := []namedFD{{r.request, r.dir.path + "/" + requestName}, {r.events, r.dir.path + "/" + eventsName}}
	for _, f := range []*os.File{r.stdout, r.stderr} {
		if f != nil {
			all = append(all, namedFD{int(f.Fd()), f.Name()})
		}
	}
	return all
}

func (r *Run) syncFiles() error {
	for _, f := range r.others() {
		if err := unix.Fdatasync(f.fd); err != nil {
			return failure("sync", f.path, err)
		}
	}
	return nil
}

// syncDirs puts the names on the disk, those of directories included that are new.
func (r *Run) syncDirs() error {
	for _, d := range []dir{r.dir, r.runs, r.root} {
		if err := unix.Fsync(d.fd); err != nil {
			return failure("sync", d.path, err)
		}
	}
	return nil
}
