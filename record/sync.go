package record

import (
	"fmt"
	"os"
	"path"

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
	if r.journal {
		if err := writeBack(r.request); err != nil {
			return failure("sync", r.dir.path+"/"+requestName, err)
		}
		return failure("sync", r.dir.path+"/"+requestName, unix.Fsync(r.request))
	}
	return r.syncBegun()
}

// begun puts what there is on the disk while the command is on its way, and what comes of that on early: there is less
// to wait for in the end then. A journal takes it down in the end as fast.
func (r *Run) begun() {
	if r.journal {
		return
	}
	r.early = make(chan error, 1)
	go func() { r.early <- r.syncBegun() }()
}

// syncBegun puts on the disk what does not change any more, and the names of all files.
func (r *Run) syncBegun() error {
	for _, f := range []namedFD{{r.request, r.dir.path + "/" + requestName}, {r.dir.fd, r.dir.path}, {r.runs.fd, r.runs.path}, {r.root.fd, r.root.path}} {
		if err := syncDir(f.fd); err != nil {
			return failure("sync", f.path, err)
		}
	}
	return nil
}

// settled waits until nothing of the run's descriptors is being synced.
func (r *Run) settled() error {
	if r.early == nil {
		return nil
	}
	err := <-r.early
	r.early = nil
	return err
}

// commit writes the result, gives it its name, and waits for all of the record to be on the disk. The error is about the
// result; what the other files met is kept as the record's.
func (r *Run) commit(content []byte) error {
	if r.durable {
		_ = unix.Ftruncate(r.events, r.written) // gives back what was reserved
	}
	fd := r.result
	r.result = -1
	path := r.dir.path + "/" + resultName
	// The others' data first, so that the disk has all of it at once.
	for _, f := range r.others() {
		_ = unix.SyncFileRange(f.fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	err := writeAll(fd, content)
	if err == nil {
		err = unix.Ftruncate(fd, int64(len(content))) // gives back what was reserved
	}
	// All of the content before the name, or a result could come to be on the disk without it.
	if r.journal {
		if err == nil {
			err = writeBack(fd)
		}
		for _, f := range r.others() {
			if err := writeBack(f.fd); err != nil {
				r.keep(failure("sync", f.path, err))
			}
		}
	} else {
		if err == nil {
			err = unix.Fsync(fd)
		}
		r.keep(r.settled())
		for _, f := range r.others()[1:] {
			r.keep(failure("sync", f.path, unix.Fsync(f.fd)))
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
	if r.journal {
		err = unix.Fsync(fd)
	} else {
		err = syncDir(r.dir.fd)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return failure("sync", path, err)
}

// journaled tells a file system whose journal takes down all changes to names, sizes and places of blocks in their order
// and as one, so that a single fsync(2), for which everything waits, takes all that went before with it: ext4
// (Documentation/filesystems/ext4/journal.rst). Others promise no more than fsync(2) does, for each file and directory, and so
// does an ext4 without a journal, whose number is the same, as is that of ext2 and ext3.
func journaled(fd int) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.EXT4_SUPER_MAGIC || unix.Fstat(fd, &st) != nil {
		return false
	}
	return hasJournal(st.Dev)
}

// hasJournal says whether the ext4 on a disk is known to have a journal: in a container without /sys it is not.
func hasJournal(dev uint64) bool {
	// A link to the disk's own folder, whose name is the one that ext4 goes by.
	link := make([]byte, unix.PathMax)
	n, err := unix.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)), link)
	if err != nil {
		return false
	}
	task := readProc("/sys/fs/ext4/" + path.Base(string(link[:n])) + "/journal_task")
	return len(task) > 0 && task[0] >= '0' && task[0] <= '9' // without one it is "<none>"
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

// others are the files of the record beside its result, first the one that does not change.
func (r *Run) others() []namedFD {
	all := []namedFD{{r.request, r.dir.path + "/" + requestName}, {r.events, r.dir.path + "/" + eventsName}}
	for _, f := range []*os.File{r.stdout, r.stderr} {
		if f != nil {
			all = append(all, namedFD{int(f.Fd()), f.Name()})
		}
	}
	return all
}

// syncDir is fsync(2) for directories too, of which some file systems (vboxsf) have nothing to sync.
func syncDir(fd int) error {
	if err := unix.Fsync(fd); err != unix.EINVAL {
		return err
	}
	return nil
}
