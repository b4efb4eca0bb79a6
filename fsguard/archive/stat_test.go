package archive

import "syscall"

type unixStat = syscall.Stat_t
